r"""What is trained for, what is measured, with which gains, and how much: the protocol of Stoyanov et al. 2011.

In: nothing. Out: :data:`TESTS` (loss and decoder), :data:`TRAINS` (rows of Table 3), :class:`Condition` (columns of
Tables 4 and 5), :data:`GAINS`, :data:`PROTOCOLS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from loopwise.decode import ApproximateF, Identity, Max
from loopwise.decode.base import BeliefDecoder
from loopwise.learn.evaluate import Goal
from loopwise.learn.stages import Stage, hybrid
from loopwise.loss import F1, L1, MSE, SurrogateLikelihood
from studies.erma.models import SampleSizes, Size, published_sizes
from studies.harness.results import FULL, QUICK


@dataclass(frozen=True)
class Test:
    """A loss with the decoder of least risk for it; the decoder's soft form is trained with."""

    __test__ = False  # not one of pytest's

    name: str
    published: str  # what the paper calls it
    goal: Callable[[], Goal]
    decoder: Callable[[], BeliefDecoder]


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


# Searched on extra models (other seeds than the study's; 50-200, 60-160, 100-461, 120-480) by the loss of fresh
# examples, by hand rather than in one whole run of `python -m studies.erma.gains`. The likelihood is a sum
# over variables, the losses are means with slopes of about 1e-3: hence gains that differ so much. MSE: from a gain of
# 30 and a meta step of 3000 on, small dense models diverge. F and L1 start from what the MSE found and want short
# steps: long ones lower the soft loss by making beliefs extreme, and raise the hard one.
GAINS = {
    "LOGL": Gains(0.1, 3.0, 0.9, clip=10.0),
    "MSE": Gains(10.0, 1000.0, 0.9, clip=0.1),
    "F": Gains(0.03, 300.0, 0.9, clip=0.1),
    "L1": Gains(0.03, 300.0, 0.9, clip=0.1),
}
FIRST_GAINS = {"F": Gains(1.0, 30.0, 0.9, clip=0.1), "L1": Gains(1.0, 30.0, 0.9, clip=0.1)}  # where no MSE came before
SGD_GAINS = {"MSE": Gains(10.0, clip=0.1)}  # the gain falls as 1 / sqrt(epoch)


def stages_of(train: Train) -> tuple[tuple[Stage, Gains], ...]:
    """The goals of a setting after the likelihood of staged ones, each with its gains."""
    name = train.target.name
    goal = Stage(train.target.goal())
    if train.gain_only:
        return ((goal, SGD_GAINS[name]),)
    if not train.hybrid:
        return ((goal, FIRST_GAINS.get(name, GAINS[name])),)
    first, *others = hybrid(goal)
    return ((first, GAINS["MSE"]), *((stage, GAINS[name]) for stage in others))


# --- How much is run ------------------------------------------------------------------------------------------------

TRUE = Condition(iterations=1000)  # under which the truth is judged: to convergence
TRUTH = "truth"  # what is "trained" there


@dataclass(frozen=True)
class ErmaProtocol:
    """How much of the study to run."""

    sizes: tuple[Size, ...] = field(default_factory=published_sizes)
    sampling: SampleSizes = field(default_factory=SampleSizes)
    epochs: int = 25
    warm_up: int = 3  # epochs of likelihood in staged training
    restarts: int = 5
    batch: int = 32  # a full lane of the kernels
    mismatches: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    sweeps: tuple[int, ...] = (100, 30, 20, 10)
    landscape: Size = field(default_factory=partial(Size, 50, 200))  # the model of Figure 1
    points: int = 101  # of each of its curves


@dataclass(frozen=True)
class ErmaJob:
    """A cell: which model, trained how, under which condition."""

    size: Size
    train: str  # a name of TRAINS, or TRUTH
    condition: Condition = IDEAL

    @property
    def name(self) -> str:
        return f"{self.size.name} {self.train}, {self.condition.name}"

    def path(self, folder: Path) -> Path:
        """Where its run is kept."""
        name = self.train.replace(", ", "-").replace(" ", "-")
        return folder / f"run-{self.size.name}-{self.condition.name}-{name}.npz"

    def cost(self, protocol: ErmaProtocol) -> float:
        """How long it takes, in units of nobody's: epochs, weighed by edges and by what likelihoods cost more."""
        size = 150 + self.size.edges  # a step costs something whatever the edges
        if self.train == TRUTH:
            return size
        train = TRAINS[self.train]
        epochs = train.epochs or protocol.epochs
        if train.target is LOGL_TEST:
            return 2.0 * epochs * train.restarts(protocol.restarts) * size
        return (epochs * train.restarts(protocol.restarts) + (protocol.warm_up if train.staged else 0)) * size


PROTOCOLS = {
    FULL: ErmaProtocol(),  # as published
    QUICK: ErmaProtocol(
        sizes=(Size(50, 100), Size(50, 200), Size(100, 461)),
        sampling=SampleSizes(train=480, test=500, burn_in=500),
        epochs=15,
        restarts=2,
        mismatches=(0.2, 0.4),
        sweeps=(100, 10),
        points=21,
    ),
}
