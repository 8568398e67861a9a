"""Folders of images: what goes in comes out, and what does not fit is named."""

from __future__ import annotations

import gc
import io
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loopwise.formats import FormatError
from loopwise.formats.images import read_pictures, write_labels, write_marginals

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (4, 5)).astype(np.uint8)
LABELS = RNG.integers(0, 3, (4, 5))


def folder(path: Path, **files: Any) -> Path:
    """A folder of arrays; the ending of a name says the format (``_`` for the dot)."""
    path.mkdir(parents=True)
    for name, array in files.items():
        stem, ending = name.rsplit("_", 1)
        if ending == "png":
            Image.fromarray(array).save(path / f"{stem}.png")
        elif ending == "npy":
            np.save(path / f"{stem}.npy", array)
        else:
            np.savez(path / f"{stem}.npz", array=array)
    return path


def test_formats_and_pairs(tmp_path: Path) -> None:
    colour = RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    images = folder(tmp_path / "images", b_png=GREY, a_npy=GREY / 255, c_npz=GREY)
    labels = folder(tmp_path / "labels", a_png=LABELS.astype(np.uint8), b_npy=LABELS, c_npz=LABELS)
    mask = LABELS > 0
    masks = folder(tmp_path / "masks", a_png=mask, b_png=mask.astype(np.uint8) * 255, c_npy=mask)
    found = read_pictures(images, labels, masks, states=3)
    assert found.names == ["a", "b", "c"] and found.labels is not None and found.masks is not None
    np.testing.assert_array_equal(found.images[0], GREY / 255)
    for place in range(3):
        np.testing.assert_array_equal(found.labels[place], np.where(mask, LABELS, -1))
        np.testing.assert_array_equal(found.masks[place], mask)
    Image.fromarray(np.dstack([colour, GREY])).save(tmp_path / "clear.png")  # how opaque it is does not count
    np.testing.assert_array_equal(read_pictures(tmp_path / "clear.png").images[0], colour)
    np.savez(tmp_path / "several.npz", one=GREY, two=colour)
    assert read_pictures(tmp_path / "several.npz").names == ["one", "two"]


def test_sixteen_bits_and_one_bit(tmp_path: Path) -> None:
    deep = RNG.integers(0, 2**16, (4, 5)).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    found = read_pictures(tmp_path / "deep.png").images[0]
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, deep)
    Image.fromarray(GREY > 99).save(tmp_path / "bits.png")
    np.testing.assert_array_equal(read_pictures(tmp_path / "bits.png").images[0], GREY > 99)


def test_numbers_that_stand_for_labels(tmp_path: Path) -> None:
    images = folder(tmp_path / "images", a_png=GREY)
    stored = np.array([0, 128, 255], dtype=np.uint8)[LABELS]
    stored[0, 0] = 77
    labels = folder(tmp_path / "labels", a_png=stored)
    found = read_pictures(images, labels, states=3, values=(0, 128, 255), void=(77,)).labels
    assert found is not None and found[0][0, 0] == -1
    np.testing.assert_array_equal(found[0].reshape(-1)[1:], LABELS.reshape(-1)[1:])


@pytest.mark.parametrize("values", [None, (0, 100, 255)])
def test_written_labels_read_back(tmp_path: Path, values: Any) -> None:
    images = folder(tmp_path / "images", a_png=GREY)
    (tmp_path / "out").mkdir()
    write_labels(tmp_path / "out" / "a.png", LABELS, values)
    found = read_pictures(images, tmp_path / "out", states=3, values=values).labels
    assert found is not None
    np.testing.assert_array_equal(found[0], LABELS)
    write_labels(tmp_path / "out" / "b.npy", LABELS)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "b.npy"), LABELS)
    with pytest.raises(ValueError, match="use \\.npy"):
        write_labels(tmp_path / "out" / "a.png", LABELS + 300)
    marginals = RNG.random((4, 5, 3))
    write_marginals(tmp_path / "out" / "c.npz", marginals)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "c.npz")["marginals"], marginals, rtol=1e-6)


def bad(tmp_path: Path, case: str) -> tuple[Path, dict[str, Any]]:
    """Images, and arguments with which reading fails."""
    images = folder(tmp_path / "images", a_png=GREY, b_png=GREY)
    good = LABELS.astype(np.uint8)
    options: dict[str, Any] = {"states": 3}
    if case == "no partner":
        options["labels"] = folder(tmp_path / "labels", a_png=good)
    elif case == "spare":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_png=good, c_png=good)
    elif case == "size":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_png=good[:3])
    elif case == "label":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_png=good + 1)
    elif case == "colours":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_png=np.dstack([good] * 3))
    elif case == "fractions":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_npy=LABELS / 2)
    elif case == "masked":
        options["labels"] = folder(tmp_path / "labels", a_png=good, b_png=good)
        options["masks"] = folder(tmp_path / "masks", a_png=good * 0 + 1, b_png=good * 0)
    elif case == "empty":
        images = tmp_path / "nothing"
        images.mkdir()
        (images / "notes.txt").write_text("no images here")
    elif case == "unreadable":
        (images / "b.png").write_bytes(b"this is no picture")
    elif case == "cut off":
        data = (images / "b.png").read_bytes()
        (images / "b.png").write_bytes(data[: len(data) // 2])
    elif case == "no array":
        (images / "b.png").rename(images / "b.npy")
    elif case == "pickled":
        (images / "b.png").unlink()
        np.save(images / "b.npy", np.array([{}, {}]), allow_pickle=True)
    elif case == "twice":
        np.save(images / "b.npy", GREY)
    elif case == "shape":
        (images / "b.png").unlink()
        np.save(images / "b.npy", np.zeros(3))
    elif case == "not finite":
        (images / "b.png").unlink()
        np.save(images / "b.npy", np.array([[0.0, np.nan]]))
    elif case == "several":
        (images / "b.png").unlink()
        np.savez(images / "b.npz", one=GREY, two=GREY)
    return images, options


@pytest.mark.parametrize(
    "case, file, words",
    [
        ("no partner", "b.png", "no labels file of the same name"),
        ("spare", "c.png", "no image of the same name"),
        ("size", "b.png", "3x5 pixels"),
        ("label", "b.png", "has the label 3; labels are 0 to 2"),
        ("colours", "b.png", "3 numbers a pixel"),
        ("fractions", "b.npy", "whole numbers"),
        ("masked", "b.png", "no pixel of this image has a label"),
        ("empty", "nothing", "holds no .png"),
        ("unreadable", "b.png", "is no image"),
        ("cut off", "b.png", "save it again"),
        ("no array", "b.npy", "no NumPy array"),
        ("pickled", "b.npy", "holds Python objects"),
        ("twice", "b.png", "there is also b.npy"),
        ("shape", "b.npy", "an image is"),
        ("not finite", "b.npy", "row 0, column 1"),
        ("several", "b.npz", "2 arrays"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, case: str, file: str, words: str) -> None:
    images, options = bad(tmp_path, case)
    with pytest.raises(FormatError) as caught:
        read_pictures(images, **options)
    message = str(caught.value)
    assert file in message and words in message and "\n" not in message


def test_what_a_mask_hides_may_be_any_number(tmp_path: Path) -> None:
    images = folder(tmp_path / "images", a_png=GREY)
    labels = folder(tmp_path / "labels", a_npy=np.where(LABELS > 0, LABELS, 255))
    with pytest.raises(FormatError, match="has the label 255"):
        read_pictures(images, labels, states=3)
    masks = folder(tmp_path / "masks", a_npy=LABELS > 0)
    found = read_pictures(images, labels, masks, states=3)
    np.testing.assert_array_equal(found.labels[0], np.where(LABELS > 0, LABELS, -1))


def test_minus_one_may_stand_for_a_label(tmp_path: Path) -> None:
    images, signs = folder(tmp_path / "images", a_png=GREY), np.where(LABELS > 0, 1, -1)
    labels = folder(tmp_path / "labels", a_npy=signs)
    found = read_pictures(images, labels, values=(-1, 1))
    np.testing.assert_array_equal(found.labels[0], LABELS > 0)
    with pytest.raises(ValueError, match="one twice"):
        read_pictures(images, labels, values=(5, 5))


def test_palettes_are_colours_of_images_and_numbers_of_labels(tmp_path: Path) -> None:
    ramp = np.arange(16, dtype=np.uint8).reshape(4, 4)
    for name, palette in {"grey": [16 * k for k in range(16) for _ in "rgb"], "red": [16, 0, 0] * 16}.items():
        picture = Image.fromarray(ramp).convert("L")
        picture.putpalette(palette)
        picture.save(tmp_path / f"{name}.png")
    np.testing.assert_array_equal(read_pictures(tmp_path / "grey.png").images[0], 16 * ramp)
    np.testing.assert_array_equal(read_pictures(tmp_path / "red.png").images[0], np.full((4, 4, 3), (16, 0, 0)))
    picture = Image.fromarray(0 * ramp).convert("L")
    picture.putpalette([0, 0, 0, 200, 0, 0])
    picture.save(tmp_path / "black.png")  # of a palette with red: as many channels as its neighbours in a folder
    np.testing.assert_array_equal(read_pictures(tmp_path / "black.png").images[0], np.zeros((4, 4, 3)))
    labels = read_pictures(tmp_path / "grey.png", tmp_path / "grey.png").labels
    assert labels is not None
    np.testing.assert_array_equal(labels[0], ramp)


@pytest.mark.parametrize("kind", ["png", "npy", "npz"])
def test_damaged_files_are_one_sentence(tmp_path: Path, kind: str) -> None:
    """Random bytes of a file changed: it is read, or refused with its name; nothing else is raised."""
    rng = np.random.default_rng(0)
    whole = (folder(tmp_path / "images", **{f"a_{kind}": GREY}) / f"a.{kind}").read_bytes()
    path, refused = tmp_path / f"bad.{kind}", 0
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3).tolist():
            data[place] = int(rng.integers(256))
        path.write_bytes(data)
        try:
            read_pictures(path)
        except FormatError as problem:
            assert str(path) in str(problem)
            refused += 1
    assert refused


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_pictures(tmp_path / "missing")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("text", "no NumPy array"),
        ("objects", "holds Python objects"),
        ("header", "no NumPy array"),
        ("cut off", "no NumPy array"),
        ("strange", "no NumPy array"),
        ("letters", "which are no real numbers"),
    ],
)
def test_members_that_are_no_arrays(tmp_path: Path, member: str, words: str) -> None:
    def saved(array: object) -> bytes:
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=True)
        return stream.getvalue()

    content = {
        "text": b"not an array",
        "objects": saved(np.array([{}, {}])),
        "header": saved(GREY).replace(b"'descr'", b"'decsr'"),
        "cut off": saved(GREY)[:-3],
        "strange": saved(GREY).replace(b"{'descr'", b"{['scr'"),
        "letters": saved(np.array([["a", "b"]])),
    }[member]
    path = tmp_path / "images.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.npy", saved(GREY))
        archive.writestr("notes.txt" if member == "text" else "bad.npy", content)
    with pytest.raises(FormatError) as problem:
        read_pictures(path)
    name = "notes.txt" if member == "text" else "bad"
    assert f"images.npz[{name}]" in str(problem.value) and words in str(problem.value)
    assert "allow_pickle" not in str(problem.value) and "\n" not in str(problem.value)


def test_an_archive_under_the_name_of_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", GREY)
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(FormatError, match=r"a\.npy: the file is an archive of arrays"):
        read_pictures(tmp_path / "a.npy")


def npy(header: bytes, data: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.filterwarnings("error")
def test_odd_headers_and_damaged_archives_without_foreign_warnings(tmp_path: Path) -> None:
    old = npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }\n", bytes(range(6)))  # of Python 2
    (tmp_path / "a.npy").write_bytes(old)
    assert read_pictures(tmp_path / "a.npy").images[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", old)
    assert read_pictures(tmp_path / "a.npz").images[0].shape == (2, 3)
    (tmp_path / "b.npy").write_bytes(npy(b"{'d\\escr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", b"123456"))
    with pytest.raises(FormatError, match="is no NumPy array"):
        read_pictures(tmp_path / "b.npy")


def test_damaged_archives_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.zeros((4, 5)))
    path.write_bytes(path.read_bytes()[:-30])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(FormatError, match="is no NumPy array"):
            read_pictures(path)
        gc.collect()
    assert not heard


@pytest.mark.parametrize("interlaced", [0, 1])
def test_more_pixels_than_the_file_can_hold(tmp_path: Path, interlaced: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 5, 15_000_000, 8, 0, 0, 0, interlaced)
    pixels = chunk(b"IDAT", zlib.compress(bytes(12)))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + pixels + chunk(b"IEND", b""))
    with pytest.raises(FormatError, match="claims 15000000 x 5 pixels, which its 68 bytes cannot hold"):
        read_pictures(tmp_path / "a.png")


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
@pytest.mark.parametrize("size", [(4000, 4000), (1, 300_000), (30_000, 7)])
def test_what_is_compressed_best_is_read(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    Image.new(mode, size).save(tmp_path / "a.png", optimize=True)
    assert read_pictures(tmp_path / "a.png").images[0].shape[:2] == size[::-1]


@pytest.mark.parametrize("kind", ["m8[s]", "M8[s]", "c8", "U1"])
def test_arrays_of_other_things_than_real_numbers(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3), dtype=kind))
    with pytest.raises(FormatError, match="which are no real numbers"):
        read_pictures(tmp_path / "a.npy")
