"""The demo's image: a grid model that removes noise, trained by likelihood and for its loss under few sweeps of BP.

In: how much to run and a seed. Out: a :class:`Restored` for each goal. Base images are those of
:mod:`loopwise.demo.base_images`; the one that is shown is not among those trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.grid_crf import GridCRF
from loopwise.demo.base_images import Labels, base_images
from loopwise.demo.trials import LIKELIHOOD, Floats
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.evaluate import Goal
from loopwise.loss import MSE, SurrogateLikelihood
from loopwise.loss.metric import HammingError

SHOWN = 1  # the letters
RATE = 0.05  # of Adam: six weights, and steps over all images


@dataclass(frozen=True)
class ImageAmounts:
    """How much is run. ``noise``: the standard deviation of what is added to black (0) and white (1) pixels."""

    sweeps: int = 10
    noise: float = 1.0
    copies: int = 8  # noisy ones of each base image
    side: int = 64
    epochs: int = 30  # twice: of likelihood, then of likelihood again or of the loss


@dataclass(frozen=True, eq=False)
class Restored:
    """What a model makes of the images it was not trained on."""

    goal: str
    truth: Labels  # [rows, columns], of the image shown
    noisy: Floats
    white: Floats  # [rows, columns], how probable each pixel is said to be white
    loss: float  # mean squared error of these, over all test images
    wrong: float  # the share of pixels


def restore(goal: str, amounts: ImageAmounts, seed: int) -> Restored:
    """Trains on noisy copies of three images, and tests on those of the fourth."""
    train, test = _noisy_images(amounts, seed)
    crf = GridCRF(
        inference=BP(iterations=amounts.sweeps, tolerance=0, engine=Compiled(1)),
        optimizer=partial(torch.optim.Adam, lr=RATE),
        iterations=amounts.epochs,
        batch=len(train[0]),
        seed=seed,
    )
    last: Goal = SurrogateLikelihood() if goal == LIKELIHOOD else MSE()
    crf.fit(*train, loss=[SurrogateLikelihood(), last], progress=False)
    noisy, truth = test
    found = crf.evaluate(noisy, truth, {"loss": MSE(), "wrong": HammingError()})
    white = crf.predict_marginals(noisy)[0, ..., 1]
    return Restored(goal, truth[0], noisy[0], np.asarray(white), found["loss"], found["wrong"])


def _noisy_images(amounts: ImageAmounts, seed: int) -> tuple[tuple[Floats, Labels], tuple[Floats, Labels]]:
    """Training and test images with their truths, ``[images, rows, columns]``."""
    clean = base_images()[:, : amounts.side, : amounts.side]
    generator = np.random.default_rng([seed, clean.size])

    def copies(images: Labels) -> tuple[Floats, Labels]:
        truth: NDArray[np.int64] = np.repeat(images, amounts.copies, axis=0)
        return truth + generator.normal(0.0, amounts.noise, truth.shape), truth

    return copies(np.delete(clean, SHOWN, axis=0)), copies(clean[[SHOWN]])
