r"""What is trained for, what is measured, and with which gains: the settings of Stoyanov et al. 2011.

In: nothing. Out: :data:`TESTS` (loss and decoder), :data:`TRAINS` (rows of Table 3), :class:`Condition` (columns of
Tables 4 and 5), :data:`GAINS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopwise.decode import ApproximateF, Identity, Max
from loopwise.decode.base import Decoder
from loopwise.learn.evaluate import Goal
from loopwise.loss import F1, L1, MSE, SurrogateLikelihood


@dataclass(frozen=True)
class Test:
    """A loss with the decoder of least risk for it; the decoder's soft form is trained with."""

    __test__ = False  # not one of pytest's

    name: str
    published: str  # what the paper calls it
    goal: Callable[[], Goal]
    decoder: Callable[[], Decoder]


MSE_TEST = Test("MSE", "frac-MSE", MSE, Identity)
F_TEST = Test("F", "int-F", F1, ApproximateF)  # the threshold of the training corpus
L1_TEST = Test("L1", "int-L1", L1, Max)
LOGL_TEST = Test("LOGL", "APPR-LOGL", SurrogateLikelihood, Identity)
TESTS = {test.name: test for test in (MSE_TEST, F_TEST, L1_TEST, LOGL_TEST)}


@dataclass(frozen=True)
class Train:
    """A way to train. ``staged``: after a few epochs of likelihood; ``hybrid``: from the MSE in steps."""

    name: str
    target: Test
    staged: bool = False
    hybrid: bool = False
    gain_only: bool = False  # plain stochastic gradient descent
    epochs: int | None = None  # None: as the protocol says

    def restarts(self, of: int) -> int:
        """Staged runs start once, as published."""
        return 1 if self.staged else of


LOGL = Train("LOGL", LOGL_TEST)
BEST = {
    "MSE": Train("MSE-in", MSE_TEST, staged=True),
    "F": Train("F-hyb-in", F_TEST, staged=True, hybrid=True),
    "L1": Train("L1-hyb-in", L1_TEST, staged=True, hybrid=True),
    "LOGL": LOGL,
}  # the training of Tables 4 to 6 for each test
SGD = Train("MSE-in by SGD", MSE_TEST, staged=True, gain_only=True)
ONE_EPOCH = Train("LOGL, one epoch", LOGL_TEST, epochs=1)
TRAINS = {
    train.name: train
    for train in (
        LOGL,
        Train("MSE", MSE_TEST),
        BEST["MSE"],
        Train("F-hyb", F_TEST, hybrid=True),
        Train("F-in", F_TEST, staged=True),
        BEST["F"],
        Train("L1-hyb", L1_TEST, hybrid=True),
        Train("L1-in", L1_TEST, staged=True),
        BEST["L1"],
        SGD,
        ONE_EPOCH,
    )
}
TABLE3 = {
    "MSE": ("LOGL", "MSE", "MSE-in"),
    "F": ("LOGL", "F-hyb", "F-in", "F-hyb-in"),
    "L1": ("LOGL", "L1-hyb", "L1-in", "L1-hyb-in"),
    "LOGL": ("LOGL",),
}  # test: rows


@dataclass(frozen=True)
class Condition:
    """What is wrong with the model or the inference: share of wrong edges, and the limit of sweeps."""

    mismatch: float = 0.0
    iterations: int = 100

    @property
    def name(self) -> str:
        return f"mismatch{round(100 * self.mismatch)}-sweeps{self.iterations}"


IDEAL = Condition()


@dataclass(frozen=True)
class Gains:
    """Options of SMD: the first gain, how fast gains change, and how far back their effect is traced."""

    gain: float
    meta: float = 0.0
    memory: float = 0.0
    clip: float | None = None  # the longest gradient: those through runs of BP that oscillate are huge


# From coarse searches on extra models, by the loss of fresh examples; not yet from one whole run of
# `python -m loopwise.reproduce.erma_gains`. MSE: its grid SMOOTH on both extra models. LOGL, F, L1: a few values each,
# mostly on 120-480. SGD: the best of constant gains 3, 10, 30 on a model 50-150, the least of them. The losses are
# means over variables with slopes of about 1e-3, the likelihood is a sum: hence gains that differ so much.
GAINS = {
    "LOGL": Gains(0.1, 3.0, 0.9, clip=10.0),
    "MSE": Gains(30.0, 3000.0, 0.9, clip=0.1),
    "F": Gains(0.3, 30.0, 0.9, clip=0.1),
    "L1": Gains(3.0, 30.0, 0.9, clip=0.1),
}
SGD_GAINS = {"MSE": Gains(3.0, clip=0.1)}  # the gain falls as 1 / sqrt(epoch)


def gains_of(train: Train) -> Gains:
    """For the last stage of a setting."""
    return (SGD_GAINS if train.gain_only else GAINS)[train.target.name]
