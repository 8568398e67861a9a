"""Which curves the cost-aware study has, and how much of each is run.

In: a mode. Out: :data:`PROTOCOLS`, jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from studies.cost_aware.models import Mixed, Patterned, Synthetic
from studies.harness.results import FULL, QUICK

FIGURE1, STRONG, SWEEPS, STOPPING, BOTH, GATES = "figure1", "strong", "sweeps", "stopping", "both", "gates"
EVERYTHING = (FIGURE1, STRONG, SWEEPS, STOPPING, BOTH, GATES)
DENSE, OURS, UNSCALED, REFITTED = "dense", "ours", "ours, unit 1", "ours, refitted"
L1_NAME, L1_REFITTED, GROUP, MAGNITUDE, RANDOM = "L1", "L1, refitted", "group lasso", "magnitude", "random"
REFITS = {OURS: REFITTED, L1_NAME: L1_REFITTED}  # curves whose systems, trained on without a price, are another
ERM, LIKELIHOOD = "ERM", "likelihood"
FIXED, TOLERANCE, LEARNED = "fixed sweeps", "fixed tolerance", "learned stopping"
SPARSE, TOGETHER = "learned sparsity", "both"
RESIDUAL, MESSAGES, EVIDENCE, ALL_FOUR = "residual BP", "message gates", "evidence gates", "all four"
GATE_CURVES = (FIXED, RESIDUAL, SPARSE, LEARNED, MESSAGES, EVIDENCE, ALL_FOUR)


@dataclass(frozen=True)
class CostAwareProtocol:
    """How much of the study to run.

    ``synthetic``: the models of Figure 1 and of the study of sweeps. Log-potentials of standard deviation 1, as the
    paper may be read, make nearly deterministic outputs (``strong``); with 1/2 the dense MSE is where it is printed.
    """

    truths: int
    others: int | None = None  # truths of all studies but Figure 1, the first ones; None: as many
    synthetic: Synthetic = field(default_factory=partial(Synthetic, scale=0.5))
    strong: Synthetic = field(default_factory=Synthetic)
    mixed: Mixed = field(default_factory=Mixed)
    prices: tuple[float, ...] = tuple(0.01 * 10 ** (k / 3) for k in range(12))
    strengths: tuple[float, ...] = tuple(1e-4 * 10 ** (k / 4) for k in range(10))
    group_strengths: tuple[float, ...] = tuple(1e-4 * 10 ** (k / 4) for k in range(10))
    counts: tuple[int, ...] = (25, 50, 100, 200, 400, 800)
    curves: tuple[str, ...] = (OURS, UNSCALED, REFITTED, L1_NAME, L1_REFITTED, GROUP, MAGNITUDE, RANDOM)
    strong_curves: tuple[str, ...] = (OURS, L1_NAME, GROUP, MAGNITUDE)
    iterations: int = 2  # of Figure 1
    dense_epochs: int = 30
    epochs: int = 20  # a setting, each from the weights of the one before
    pruned_epochs: int = 20  # of what magnitude or chance leaves, from the dense model
    refit: int = 10
    batch: int = 64
    rate: float = 0.03
    sweeps: tuple[int, ...] = tuple(range(1, 11))
    likelihood_rate: float = 0.03
    limit: int = 20  # sweeps of the stopping study
    stopping_prices: tuple[float, ...] = (0.02, 0.05, 0.08, 0.13, 0.2, 0.3)
    both_prices: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)  # of few sweeps factors cost little each
    stopping_epochs: int = 15
    fixed: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 20)
    tolerances: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    policy_rate: float = 0.03
    median: float = 1.5  # strength of the median factor, where stopping and sparsity go together
    both_rate: float = 0.03
    policy_steps: int = 300  # of the fit of a policy to a model as it is
    patterned: Patterned = field(default_factory=Patterned)
    gate_limit: int = 8  # sweeps of the study of gates
    gate_prices: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    gate_fixed: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    gate_epochs: int = 15
    dev: int = 512  # training examples on which the hard system is looked at after each epoch


@dataclass(frozen=True)
class CurveJob:
    """One curve of one truth."""

    study: str
    truth: int
    curve: str

    @property
    def name(self) -> str:
        return f"{self.study}, truth {self.truth + 1}: {self.curve}"

    def path(self, folder: Path) -> Path:
        """Where its points are kept."""
        return folder / f"{self.study}-{self.truth}-{self.curve.replace(', ', '-').replace(' ', '-')}.json"


def jobs(protocol: CostAwareProtocol, studies: Sequence[str] = EVERYTHING) -> list[CurveJob]:
    """All of some studies, truth by truth, so that a study that is cut short has something of everything."""
    return [job for job in _jobs(protocol) if job.study in studies]


def _jobs(protocol: CostAwareProtocol) -> list[CurveJob]:
    found = []
    for truth in range(protocol.truths):
        found += [CurveJob(FIGURE1, truth, curve) for curve in own_runs(protocol.curves)]
        if protocol.others is not None and truth >= protocol.others:
            continue
        found += [CurveJob(STRONG, truth, curve) for curve in own_runs(protocol.strong_curves)]
        found += [CurveJob(SWEEPS, truth, curve) for curve in (ERM, LIKELIHOOD)]
        found += [CurveJob(STOPPING, truth, curve) for curve in (FIXED, TOLERANCE, LEARNED)]
        found += [CurveJob(BOTH, truth, curve) for curve in (FIXED, SPARSE, LEARNED, TOGETHER)]
        found += [CurveJob(GATES, truth, curve) for curve in GATE_CURVES]
    return found


def own_runs(curves: tuple[str, ...]) -> list[str]:
    """All but those that another run makes on the way."""
    made = [REFITS[curve] for curve in curves if curve in REFITS]
    return [curve for curve in (DENSE, *curves) if curve not in made]


# About two hours of one core. Strengths and prices cover what earlier, longer grids did, with fewer steps between.
FULL_PROTOCOL = CostAwareProtocol(
    truths=10,
    others=4,
    prices=tuple(0.02 * 10 ** (0.55 * k) for k in range(8)),
    strengths=tuple(1e-4 * 10 ** (0.32 * k) for k in range(8)),
    group_strengths=tuple(1e-4 * 10 ** (0.32 * k) for k in range(8)),
    epochs=8,
    sweeps=(1, 2, 3, 4, 6, 10),
    stopping_prices=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
    stopping_epochs=10,
    fixed=(1, 2, 3, 4, 6, 8, 12, 20),
    tolerances=(0.3, 0.1, 0.03, 0.01, 0.003),
)
QUICK_PROTOCOL = CostAwareProtocol(
    truths=1,
    synthetic=Synthetic(train=600, test=600, burn_in=100, scale=0.5),
    strong=Synthetic(train=600, test=600, burn_in=200),
    mixed=Mixed(side=8, train=400, test=400, burn_in=300),
    prices=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    strengths=(1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    group_strengths=(1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    counts=(25, 100, 400),
    dense_epochs=12,
    epochs=5,
    pruned_epochs=10,
    refit=5,
    sweeps=(1, 2, 3, 5),
    limit=16,
    stopping_prices=(0.03, 0.1, 0.2),
    both_prices=(0.03, 0.1, 0.3, 1.0),
    stopping_epochs=8,
    fixed=(1, 2, 4, 8, 16),
    patterned=Patterned(side=6, train=300, test=300, burn_in=200),
    gate_limit=6,
    gate_prices=(0.02, 0.1, 0.5),
    gate_fixed=(1, 2, 4, 6),
    gate_epochs=5,
    tolerances=(0.3, 0.1, 0.03),
)
PROTOCOLS = {FULL: FULL_PROTOCOL, QUICK: QUICK_PROTOCOL}
