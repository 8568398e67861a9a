"""Images and their labels as users have them, checked, and as the model takes them: blocks of one size.

In: arrays or lists of arrays. Out: :class:`ImageBatch` after :class:`ImageBatch`, the images of one size each. Stage:
use. Images of different sizes are never padded: each size is a batch of its own, so an image's answer does not depend
on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers

Floats = NDArray[np.float64]

UNLABELLED = FREE  # the label of a pixel that does not count


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Images of one size, and where they stood in what was given."""

    places: Integers  # [images]
    images: Tensor  # float64 [images, channels, rows, columns]
    labels: Tensor | None = None  # int64 [images, pixels], UNLABELLED where a pixel does not count
    weights: Tensor | None = None  # float64 [images]: what each counts in training; None: all alike

    @property
    def size(self) -> tuple[int, int]:
        return int(self.images.shape[-2]), int(self.images.shape[-1])

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: slice | Integers) -> ImageBatch:
        """Some of the images."""
        chosen = np.arange(len(self))[rows]
        index = torch.from_numpy(chosen)
        labels = None if self.labels is None else self.labels.index_select(0, index)
        weights = None if self.weights is None else self.weights.index_select(0, index)
        images = self.images.index_select(0, index)
        return replace(self, places=self.places[chosen], images=images, labels=labels, weights=weights)


def as_images(given: Any, channels: int | None = None) -> list[Floats]:
    """Images as float64 ``[rows, columns, channels]``; all must have ``channels`` of them, if that is given.

    ``given``: an array ``[images, rows, columns]`` or ``[images, rows, columns, channels]``, or a list of arrays
    ``[rows, columns]`` or ``[rows, columns, channels]`` of any sizes. 8- and 16-bit integers are brought to 0...1;
    truth values are 0 and 1; floats stay as they are.
    """
    images = [_as_image(number, image) for number, image in enumerate(_listed("images", given, (3, 4)))]
    expected = images[0].shape[2] if channels is None else channels
    for number, image in enumerate(images):
        if image.shape[2] != expected:
            other = "image 0 has" if channels is None else "the model was trained on"
            raise ValueError(f"image {number} has {image.shape[2]} channels, {other} {expected}; give images alike")
    return images


def as_labels(given: Any, images: Sequence[Floats], states: int, masks: Any = None) -> list[Integers]:
    """Labels ``[rows, columns]`` of each image, :data:`UNLABELLED` where a pixel does not count.

    ``given``: integers 0 ... states - 1, or -1 for a pixel without a label, in the sizes of the images. ``masks``:
    truth values in the same sizes, True where the label counts.
    """
    labels = [_as_label(number, label) for number, label in enumerate(_listed("labels", given, (3,)))]
    _check_sizes("labels", [label.shape for label in labels], images)
    if masks is not None:
        marks = [np.asarray(mask) for mask in _listed("masks", masks, (3,))]
        _check_sizes("masks", [mask.shape for mask in marks], images)
        for number, mask in enumerate(marks):
            if mask.dtype != np.bool_:
                raise ValueError(f"mask {number} must hold True where a label counts, not {mask.dtype}")
        labels = [np.where(mask, label, UNLABELLED) for mask, label in zip(marks, labels, strict=True)]
    for number, label in enumerate(labels):
        _check_range(number, label, states)
        if (label == UNLABELLED).all():
            raise ValueError(f"image {number} has no labelled pixel: all are masked or -1; leave the image out")
    return labels


def by_size(
    images: Sequence[Floats], labels: Sequence[Integers] | None = None, weights: Floats | None = None
) -> list[ImageBatch]:
    """Images put together by their sizes, in the order in which sizes first occur; ``weights``: one for each image."""
    members: dict[tuple[int, ...], list[int]] = {}
    for place, image in enumerate(images):
        members.setdefault(image.shape, []).append(place)
    blocks = []
    for places in members.values():
        stacked = torch.from_numpy(np.stack([np.moveaxis(images[place], 2, 0) for place in places]))
        answers = None
        if labels is not None:
            answers = torch.from_numpy(np.stack([labels[place].reshape(-1) for place in places]))
        own = None if weights is None else torch.from_numpy(weights[places])
        blocks.append(ImageBatch(np.array(places, dtype=np.int64), stacked, answers, own))
    return blocks


def parts(blocks: Sequence[ImageBatch], batch: int | None) -> Iterator[ImageBatch]:
    """The blocks cut into at most ``batch`` images each; None: as many as suit the compiled kernels."""
    for block in blocks:
        size = images_at_once(*block.size) if batch is None else batch
        for start in range(0, len(block), size):
            yield block.take(slice(start, start + size))


def take(blocks: Sequence[ImageBatch], count: int) -> list[ImageBatch]:
    """The first ``count`` images."""
    first = []
    for block in blocks:
        if count > 0:
            first.append(block.take(slice(0, count)))
            count -= len(first[-1])
    return first


# Up to this many pixels, images stand side by side in the 32 lanes of a kernel; larger ones run one after another, a
# few in a call, so that their messages stay near the processor (half the time at 64 x 64).
SMALL = 32 * 32
LANES, FEW = 32, 4


def images_at_once(rows: int, columns: int) -> int:
    """How many images of a size go through inference in one call."""
    return LANES if rows * columns <= SMALL else FEW


def _listed(what: str, given: Any, dimensions: tuple[int, ...]) -> list[Any]:
    """The members of an array or list."""
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    if isinstance(given, np.ndarray) and given.dtype != np.object_:
        if given.ndim not in dimensions:
            raise ValueError(
                f"{what} of shape {given.shape}: give an array whose first axis is the images, or a list of arrays"
            )
        members = list(given)
    elif isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise ValueError(f"{what} must be an array or a list of arrays, not {type(given).__name__}")
    else:
        members = list(given)
    if not members:
        raise ValueError(f"there are no {what}; give at least one")
    return members


def _as_image(number: int, given: Any) -> Floats:
    image = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or 0 in image.shape:
        raise ValueError(
            f"image {number} has shape {np.shape(given)}; it must be [rows, columns] or [rows, columns, channels]"
        )
    if image.dtype in (np.uint8, np.uint16):
        return image.astype(np.float64) / float(np.iinfo(image.dtype).max)
    if not (np.issubdtype(image.dtype, np.floating) or np.issubdtype(image.dtype, np.integer) or image.dtype == bool):
        raise ValueError(f"image {number} holds {image.dtype}, which are no numbers; give integers or floats")
    values: Floats = image.astype(np.float64)
    if not np.isfinite(values).all():
        row, column, _ = np.argwhere(~np.isfinite(values))[0].tolist()
        raise ValueError(
            f"image {number} has a pixel that is no finite number, at row {row}, column {column}; replace it"
        )
    return values


def _as_label(number: int, given: Any) -> Integers:
    label = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if label.ndim != 2:
        raise ValueError(f"labels of image {number} have shape {label.shape}; they must be [rows, columns]")
    if not (np.issubdtype(label.dtype, np.integer) or label.dtype == bool):
        raise ValueError(f"labels of image {number} must be integers, not {label.dtype}")
    values: Integers = label.astype(np.int64)
    return values


def _check_range(number: int, label: Integers, states: int) -> None:
    wrong = np.argwhere((label < UNLABELLED) | (label >= states))
    if wrong.size:
        row, column = wrong[0].tolist()
        raise ValueError(
            f"the label of image {number} at row {row}, column {column} is {label[row, column]}; labels are 0 to "
            f"{states - 1}, and -1 where there is none"
        )


def _check_sizes(what: str, shapes: Sequence[tuple[int, ...]], images: Sequence[Floats]) -> None:
    if len(shapes) != len(images):
        raise ValueError(f"there are {len(images)} images, but {what} for {len(shapes)}; give one each")
    for number, (shape, image) in enumerate(zip(shapes, images, strict=True)):
        if tuple(shape) != image.shape[:2]:
            raise ValueError(
                f"the {what} of image {number} have size {_size(shape)}, the image has {_size(image.shape[:2])}; they "
                "must be alike"
            )


def _size(shape: Sequence[int]) -> str:
    return "x".join(str(length) for length in shape)
