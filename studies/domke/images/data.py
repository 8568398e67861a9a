r"""The images of Table 1 of Domke 2010: natural ones made binary, and four base images, with their noise.

In: a seed, and where the natural images are. Out: :class:`ImageData`, noisy images with the right answers.

- *Berkeley*: 200 binary images of 200 x 300 pixels, split at random into halves; :math:`x = y (1 - t^{1.25}) + (1 - y)
  t^{1.25}` with :math:`t \sim U[0, 1]`, as published. Without the images, thresholded smooth random fields stand in.
- *Bimodal*, *Gaussian*: the published study used four 64 x 64 images of Kumar & Hebert, which are not at hand. Four
  images drawn here stand in for them, and the noise is set here too: numbers are not to be compared with the
  published ones, only their order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loopwise.demo.base_images import Floats, Labels, base_images
from studies.domke.images.drawn import drawn_images

FILE = "bsds_binary_200.npz"
ROWS, COLUMNS = 200, 300
EXPONENT = 1.25  # of the published noise
GAUSSIAN = 0.5  # standard deviation: a threshold then errs on 16% of pixels, and models about as often as in print
# Of each label two equally likely normal distributions, (mean, standard deviation).
BIMODAL = {0: ((0.08, 0.03), (0.46, 0.03)), 1: ((0.55, 0.02), (0.42, 0.10))}
BASES = 4
COPIES, TRAINING_COPIES = 50, 10  # published: noisy versions of each base image; those of the first to train on

BERKELEY, FIELDS, BIMODAL_NAME, GAUSSIAN_NAME = "Berkeley", "random fields", "bimodal", "Gaussian"


@dataclass(frozen=True, eq=False)
class ImageData:
    """Noisy images and answers, ``[images, rows, columns]``."""

    name: str
    train: tuple[Floats, Labels]
    test: tuple[Floats, Labels]


@dataclass(frozen=True)
class ImageCounts:
    """How much of the data to use: natural images, and noisy copies of each base image.

    ``crop``: rows and columns out of the middle of natural images, None for all. The first ``train_copies`` of the
    first base image are trained on; all others are for testing.
    """

    train: int
    test: int
    crop: tuple[int, int] | None = None
    copies: int = COPIES
    train_copies: int = TRAINING_COPIES
    drawn: int = 0  # base images beside the four, drawn here as these were
    drawn_copies: int = 5

    def tested(self, name: str) -> int:
        """How many images of a set are tested on."""
        if name in (BERKELEY, FIELDS):
            return self.test
        return BASES * self.copies - self.train_copies + self.drawn * self.drawn_copies


def find_berkeley(given: Path | None) -> Path | None:
    """The file of natural images: ``given``, or in the folder ``given`` or LOOPWISE_DATA; None if there is none."""
    folder = given if given is not None else os.environ.get("LOOPWISE_DATA")
    if folder is None:
        return None
    path = Path(folder)
    if path.is_file():
        return path
    found = sorted(path.rglob(FILE)) if path.is_dir() else []
    if not found and given is not None:
        raise ValueError(f"there is no {FILE} in {given}; give its folder, or leave --data out for stand-ins")
    return found[0] if found else None


def natural(path: Path | None, amounts: ImageCounts, seed: int) -> ImageData:
    """The Berkeley images of ``path``, or random fields, with the published noise."""
    images = _read_berkeley(path) if path is not None else _fields(amounts, seed)
    order = np.random.default_rng([seed, 0]).permutation(len(images))
    if amounts.train + amounts.test > len(images):
        raise ValueError(
            f"{amounts.train} + {amounts.test} images are asked for, there are {len(images)}; ask for fewer"
        )
    chosen = images[order[: amounts.train + amounts.test]]
    if amounts.crop is not None:
        top, left = ((size - wanted) // 2 for size, wanted in zip(chosen.shape[1:], amounts.crop, strict=True))
        chosen = chosen[:, top : top + amounts.crop[0], left : left + amounts.crop[1]]
    noisy = np.stack([_published_noise(image, np.random.default_rng([seed, 1, k])) for k, image in enumerate(chosen)])
    half = amounts.train
    return ImageData(
        BERKELEY if path is not None else FIELDS, (noisy[:half], chosen[:half]), (noisy[half:], chosen[half:])
    )


def synthetic(name: str, amounts: ImageCounts, seed: int) -> ImageData:
    """Noisy copies of the four base images and of others: some of the first to train on, all others to test on."""
    kind = (BIMODAL_NAME, GAUSSIAN_NAME).index(name)
    train: tuple[list[Floats], list[Labels]] = ([], [])
    test: tuple[list[Floats], list[Labels]] = ([], [])
    first = base_images()
    for number, base in enumerate([*first, *drawn_images(amounts.drawn)]):
        for copy in range(amounts.copies if number < len(first) else amounts.drawn_copies):
            generator = np.random.default_rng([seed, 2, kind, number, copy])
            noisy = _bimodal(base, generator) if name == BIMODAL_NAME else _gaussian(base, generator)
            target = train if number == 0 and copy < amounts.train_copies else test
            target[0].append(noisy)
            target[1].append(base)
    return ImageData(name, (np.stack(train[0]), np.stack(train[1])), (np.stack(test[0]), np.stack(test[1])))


def _published_noise(image: Labels, generator: np.random.Generator) -> Floats:
    moved = generator.random(image.shape) ** EXPONENT
    return np.where(image == 1, 1 - moved, moved)


def _gaussian(image: Labels, generator: np.random.Generator) -> Floats:
    return image + GAUSSIAN * generator.standard_normal(image.shape)


def _bimodal(image: Labels, generator: np.random.Generator) -> Floats:
    component = generator.integers(0, 2, image.shape)
    table = np.array([BIMODAL[0], BIMODAL[1]])  # [label, component, (mean, deviation)]
    chosen = table[image, component]
    return chosen[..., 0] + chosen[..., 1] * generator.standard_normal(image.shape)


def _read_berkeley(path: Path) -> Labels:
    try:
        with np.load(path, allow_pickle=False) as archive:
            bits = np.unpackbits(archive["packed"], axis=1)[:, : ROWS * COLUMNS]
    except (ValueError, KeyError, OSError) as problem:
        raise ValueError(f"{path}: this is no file of packed binary images ({problem})") from None
    return bits.reshape(-1, ROWS, COLUMNS).astype(np.int64)


def _fields(amounts: ImageCounts, seed: int) -> Labels:
    """Smooth random fields above their mean."""
    from scipy.ndimage import gaussian_filter

    fields = []
    for number in range(amounts.train + amounts.test):
        generator = np.random.default_rng([seed, 3, number])
        field = gaussian_filter(generator.standard_normal((ROWS, COLUMNS)), sigma=generator.uniform(3, 10))
        fields.append(field > field.mean())
    return np.stack(fields).astype(np.int64)
