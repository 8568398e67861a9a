"""Folders of images: pictures, their labels and masks, paired by file name.

In: folders of ``.png``, ``.npy`` or ``.npz`` files, one image each (or one ``.npz`` file of several arrays). Out:
arrays by name, and back. A name is that of the file without its ending: ``noisy/cat.png`` goes with ``labels/cat.npy``.
"""

from __future__ import annotations

import io
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import FormatError, shortened
from loopwise.formats.files import PathLike, atomic_write_bytes, display_name
from loopwise.formats.limits import current_limits, too_large, too_many_pixels

Array = NDArray[Any]

SUFFIXES = (".png", ".npy", ".npz")
DEFLATE_RATIO = 1032  # bytes that one byte of compressed data unpacks to at most
PNG_START = b"\x89PNG\r\n\x1a\n"
UNLABELLED = -1  # the label of a pixel that does not count
# What NumPy and the modules below it raise for files that are damaged.
DAMAGED = (
    ValueError, EOFError, KeyError, SyntaxError, NotImplementedError, RuntimeError, OverflowError, MemoryError,
    TypeError, AttributeError, LookupError, zipfile.BadZipFile, zlib.error, tokenize.TokenError, struct.error,
)  # fmt: skip
SHOWN = 5  # names that a message lists at most

# Colours of labels in written pictures: black, white, then Okabe & Ito's, told apart with any colour vision.
PALETTE = (
    (0, 0, 0), (255, 255, 255), (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (240, 228, 66),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stored:
    """One image of a folder."""

    name: str
    file: str  # for messages
    pixels: Array  # [rows, columns] or [rows, columns, channels]

    @property
    def size(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape[:2])


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images in the order of their names, with labels and masks where there are any."""

    names: list[str]
    images: list[Array]
    labels: list[NDArray[np.int64]] | None = None
    masks: list[NDArray[np.bool_]] | None = None


def read_pictures(
    images: PathLike,
    labels: PathLike | None = None,
    masks: PathLike | None = None,
    *,
    states: int | None = None,
    values: Sequence[int] | None = None,
    void: Sequence[int] = (),
) -> Pictures:
    """Images with the labels and masks of the same names; a :class:`FormatError` names the file that does not fit.

    ``states``: labels are 0 ... states - 1. ``values``: the numbers that stand for labels 0, 1, ... in the files (by
    default the labels themselves; ``(0, 255)`` for black and white). ``void``: numbers of pixels without a label. A
    mask is not 0 where a label counts.
    """
    if values is not None and len(set(values)) < len(values):
        raise ValueError(f"each label needs a number of its own; {', '.join(map(str, values))} has one twice")
    pictures = _read_folder(Path(images), colours=True)
    marks = None
    if masks is not None:
        marks = [_as_mask(mask) for mask in _partners(pictures, Path(masks), "mask")]
    found = None
    if labels is not None:
        answers = _partners(pictures, Path(labels), "labels")
        counted = [None] * len(answers) if marks is None else marks
        found = [_as_labels(*pair, states, values, void) for pair in zip(answers, counted, strict=True)]
        _check_labelled(pictures, found, marks)
    return Pictures([image.name for image in pictures], [image.pixels for image in pictures], found, marks)


def write_labels(path: PathLike, labels: Array, values: Sequence[int] | None = None) -> None:
    """Labels ``[rows, columns]`` as PNG, whole or not at all: the pixels hold the labels (or ``values`` for them) and
    show in colours; or as NumPy array where the name ends in ``.npy``."""
    numbers = np.asarray(labels) if values is None else np.asarray(values)[np.asarray(labels)]
    if str(path).lower().endswith(".npy"):
        with atomic_write_bytes(path) as stream:
            np.save(stream, numbers)
        return
    if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) <= 255:
        raise ValueError(f"{path}: PNG files hold labels 0 to 255, not {numbers.min()} to {numbers.max()}; use .npy")
    from PIL import Image

    picture = Image.fromarray(numbers.astype(np.uint8))
    if values is None:
        picture = picture.convert("L")
        picture.putpalette([part for colour in _colours() for part in colour])
    with atomic_write_bytes(path) as stream:
        picture.save(stream, format="PNG")


def write_marginals(path: PathLike, marginals: Array) -> None:
    """Marginals ``[rows, columns, states]`` as ``.npz`` with one array, ``marginals``, in single precision."""
    with atomic_write_bytes(path) as stream:
        np.savez_compressed(stream, marginals=np.asarray(marginals, dtype=np.float32))


def _colours() -> list[tuple[int, int, int]]:
    """256 colours; those after the named ones are greys."""
    greys = [(level, level, level) for level in range(64, 256)]
    return [*PALETTE, *greys, *[(64, 64, 64)] * 256][:256]


# --- Folders ---------------------------------------------------------------------------------------------------------


def picture_files(folder: Path) -> list[Path]:
    """The files that are read where ``folder`` is given, by name: those of a folder, or the file that it is."""
    if folder.is_file():
        return [folder]
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _read_folder(folder: Path, colours: bool = False) -> list[Stored]:
    """The images of a folder, or of one ``.npz`` file, by name.

    ``colours``: of a picture with a palette its colours are wanted, not the numbers that stand for them.
    """
    if folder.is_file():
        if folder.suffix.lower() == ".npz":
            return [
                Stored(name, f"{folder}[{shortened(name)}]", pixels)
                for name, pixels in sorted(_read_npz(folder).items())
            ]
        return [Stored(folder.stem, str(folder), _read_image(folder, colours))]
    files = picture_files(folder)
    if not files:
        raise FormatError(str(folder), None, f"the folder holds no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file")
    found: dict[str, Stored] = {}
    for path in files:
        if path.stem in found:
            raise FormatError(
                str(path),
                None,
                f"there is also {Path(found[path.stem].file).name}; files are told apart by name only; "
                "rename or remove one",
            )
        found[path.stem] = Stored(path.stem, str(path), _read_image(path, colours))
    return list(found.values())


def _partners(images: Sequence[Stored], folder: Path, what: str) -> list[Stored]:
    """The file of each image in another folder, of the same size."""
    others = {other.name: other for other in _read_folder(folder)}
    for image in images:
        if image.name not in others:
            raise FormatError(
                image.file, None, f"there is no {what} file of the same name in {folder}; it has {_listed(others)}"
            )
        other = others[image.name]
        if other.size != image.size:
            sizes = ["x".join(map(str, member.size)) for member in (other, image)]
            raise FormatError(
                other.file,
                None,
                f"the {what} file is {sizes[0]} pixels (rows x columns), but {image.file} is {sizes[1]}; "
                "both must have one size",
            )
    spare = sorted(set(others) - {image.name for image in images})
    if spare:
        raise FormatError(
            others[spare[0]].file, None, "there is no image of the same name; remove one or add the other"
        )
    return [others[image.name] for image in images]


def _listed(names: Mapping[str, object]) -> str:
    shown = ", ".join(sorted(names)[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


# --- Files -----------------------------------------------------------------------------------------------------------


def _read_image(path: Path, colours: bool) -> Array:
    if path.suffix.lower() == ".png":
        return _read_png(path, colours)
    if path.suffix.lower() == ".npz":
        arrays = _read_npz(path)
        if len(arrays) != 1:
            problem = (
                f"the file holds {len(arrays)} arrays; in a folder each file is one image (or name the file itself)"
            )
            raise FormatError(str(path), None, problem)
        return next(iter(arrays.values()))
    if path.suffix.lower() == ".npy":
        with _loaded(path) as loaded:
            if not isinstance(loaded, np.ndarray):
                raise FormatError(str(path), None, "the file is an archive of arrays; rename it to end in .npz")
            return _checked(str(path), loaded)
    raise FormatError(str(path), None, f"images are {', '.join(SUFFIXES)} files; convert it to one of these")


def _read_png(path: Path, colours: bool) -> Array:
    from PIL import Image

    data = path.read_bytes()
    try:
        with _opened(data) as picture:
            _check_pixels(path, *picture.size)  # which the header says: nothing is unpacked yet
            if picture.format == "PNG":
                _check_room(path, len(data), *picture.size)
            picture.load()
            shown = picture.convert("RGBA") if colours and picture.mode in ("P", "PA") else picture
            # How opaque a pixel is says nothing of what it shows.
            opaque = shown.convert(shown.mode[:-1]) if shown.mode in ("LA", "RGBA") else shown
            pixels = np.asarray(opaque)
            if shown is not picture and _is_grey(picture.getpalette("RGB")):
                pixels = pixels[..., 0]
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        if isinstance(problem, FormatError):
            raise
        reason = "is no image" if "cannot identify" in str(problem) else f"cannot be read ({shortened(problem, 200)})"
        raise FormatError(str(path), None, f"the file {reason}; save it again as PNG") from None
    if pixels.dtype == np.int32:  # 16 bits, as some versions of the library give them
        pixels = pixels.astype(np.uint16)
    return _checked(str(path), pixels)


def _opened(data: bytes) -> Any:
    """A picture of which only the header was read. PNG is not sent through ``Image.open``, which has a limit of its own
    that only a global variable of that library raises."""
    from PIL import Image, PngImagePlugin

    stream = io.BytesIO(data)
    return PngImagePlugin.PngImageFile(stream) if data.startswith(PNG_START) else Image.open(stream)


def _check_pixels(path: Path, width: int, height: int) -> None:
    limit = current_limits().pixels
    if width * height > limit:
        raise FormatError(str(path), None, too_many_pixels(width, height, limit))


def _check_room(path: Path, size: int, width: int, height: int) -> None:
    """A :class:`FormatError` if so many pixels cannot be in a PNG file of ``size`` bytes: the library would take its
    time to fill them with zeros."""
    least = height * (1 + (width + 7) // 8)  # a byte and at least a bit for each pixel in each row, interlaced or not
    if least > DEFLATE_RATIO * size:
        raise FormatError(
            str(path),
            None,
            f"the file claims {height} x {width} pixels, which its {size} bytes cannot hold; copy or save it again",
        )


def _is_grey(palette: list[int] | None) -> bool:
    """Whether all its colours are, those that no pixel has included: the images of a folder then come out alike."""
    colours = np.array(palette or [0, 0, 0]).reshape(-1, 3)
    return bool((colours == colours[:, :1]).all())


def _read_npz(path: Path) -> dict[str, Array]:
    with _loaded(path) as loaded:
        if isinstance(loaded, np.ndarray):
            return {"array": _checked(str(path), loaded)}
        check_archive(path, loaded)
        found = {name: _read_member(f"{path}[{shortened(name)}]", loaded, name) for name in loaded.files}
    if not found:
        raise FormatError(str(path), None, "the file holds no array; save one in it")
    return found


def _read_member(where: str, archive: Any, name: str) -> Array:
    """One array of a ``.npz`` file; what else the archive holds (text, pickled objects) is no image."""
    try:
        with _quiet():
            member = archive[name]
    except (*DAMAGED, OSError) as problem:
        raise FormatError(where, None, f"this member {_why_not(problem)}") from None
    if not isinstance(member, np.ndarray):
        raise FormatError(where, None, "this member is no NumPy array; keep only arrays in the file")
    return _checked(where, member)


def check_archive(path: PathLike, archive: Any) -> None:
    """A :class:`FormatError` if the arrays of an opened ``.npz`` unpack to more than the limit; none is read for it.

    The archive lists the bytes of its members; more than these are never unpacked.
    """
    limit = current_limits().unpacked
    if sum(member.file_size for member in archive.zip.infolist()) > limit:
        raise FormatError(display_name(path), None, too_large(limit))


@contextmanager
def _loaded(path: Path) -> Iterator[Any]:
    """An array, or an archive of some that is open as long as the block runs."""
    # NumPy does not close what it opened where an archive is damaged, so it is given a stream.
    with open(path, "rb") as stream:
        try:
            with _quiet():
                loaded = np.load(stream, allow_pickle=False)
        except (*DAMAGED, OSError) as problem:
            raise FormatError(str(path), None, f"the file {_why_not(problem)}") from None
        if isinstance(loaded, np.ndarray):
            yield loaded
        else:
            with loaded:
                yield loaded


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of NumPy and of Python's parser about headers: these are read as they are, or refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _why_not(problem: Exception) -> str:
    """What NumPy's own words come to."""
    if "Object arrays" in str(problem):
        return "holds Python objects, which are not read; save the numbers as an array of integers or floats"
    if "allow_pickle" in str(problem):  # what NumPy says of anything that does not begin as its files do
        return "is no NumPy array; save it again as one"
    return f"is no NumPy array ({shortened(' '.join(str(problem).split()), 200)}); save it again"


def _checked(where: str, pixels: Array) -> Array:
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise FormatError(
            where, None, f"the array has shape {pixels.shape}; an image is [rows, columns] or [rows, columns, channels]"
        )
    if pixels.dtype.kind not in "biuf":  # NumPy counts spans of time among its integers
        raise FormatError(
            where, None, f"the array holds {pixels.dtype}, which are no real numbers; save them as integers or floats"
        )
    if np.issubdtype(pixels.dtype, np.floating) and not np.isfinite(pixels).all():
        row, column = np.argwhere(~np.isfinite(pixels))[0][:2].tolist()
        raise FormatError(where, None, f"the pixel at row {row}, column {column} is no finite number; replace it")
    return pixels


# --- Labels and masks ------------------------------------------------------------------------------------------------


def _as_labels(
    stored: Stored,
    mask: NDArray[np.bool_] | None,
    states: int | None,
    values: Sequence[int] | None,
    void: Sequence[int],
) -> Any:
    numbers = _flat(stored, "labels")
    if not (np.issubdtype(numbers.dtype, np.integer) or numbers.dtype == np.bool_):
        raise FormatError(stored.file, None, f"labels must be whole numbers, not {numbers.dtype}")
    numbers = numbers.astype(np.int64)
    unlabelled = np.isin(numbers, void)
    if values is None or UNLABELLED not in values:
        unlabelled |= numbers == UNLABELLED
    if mask is not None:
        unlabelled |= ~mask
    listed = list(range(states)) if values is None and states is not None else values
    if listed is None:
        return np.where(unlabelled, UNLABELLED, numbers)
    wrong = np.argwhere(~np.isin(numbers, listed) & ~unlabelled)
    if wrong.size:
        row, column = wrong[0].tolist()
        allowed = f"0 to {len(listed) - 1}" if values is None else ", ".join(map(str, listed))
        raise FormatError(
            stored.file,
            None,
            f"the pixel at row {row}, column {column} has the label {numbers[row, column]}; labels are {allowed}: give "
            "more states, or say which numbers stand for labels (--label-values 0,255, or values=), or for no label",
        )
    order = np.argsort(listed)
    places = np.searchsorted(np.asarray(listed)[order], np.where(unlabelled, listed[0], numbers))
    return np.where(unlabelled, UNLABELLED, order[places])


def _as_mask(stored: Stored) -> NDArray[np.bool_]:
    return np.asarray(_flat(stored, "mask") != 0)


def _flat(stored: Stored, what: str) -> Array:
    """An array of one number a pixel."""
    pixels = stored.pixels
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        return pixels[..., 0]
    if pixels.ndim != 2:
        raise FormatError(
            stored.file,
            None,
            f"the {what} file has {pixels.shape[2]} numbers a pixel (colours); it must have one; convert it to grey",
        )
    return pixels


def _check_labelled(
    images: Sequence[Stored], labels: Sequence[Array], masks: Sequence[NDArray[np.bool_]] | None
) -> None:
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        counted = label != UNLABELLED
        if masks is not None:
            counted = counted & masks[place]
        if not counted.any():
            raise FormatError(image.file, None, "no pixel of this image has a label that counts; leave the image out")
