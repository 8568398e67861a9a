"""What the demo measures: BP, TRW and mean field against exact inference as couplings grow.

In: a grid size, a number of random models, a seed. Out: one :class:`Cell` for each method and coupling
strength, and the marginals of one model as images.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from loopwise.graph.factor_graph import FactorGraph
    from loopwise.inference.base import Inference
    from loopwise.inference.beliefs import Beliefs

COUPLINGS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
SHOWN_COUPLING = 2.0  # where the methods visibly part
FIELD = 0.5  # strength of the unary potentials
SWEEPS = 200
TOLERANCE = 1e-6
ROUNDING = 1e-9  # relative: what a bound may miss by


@dataclass(frozen=True)
class Cell:
    """One method at one coupling strength, over several random models."""

    coupling: float
    method: str
    error: float  # mean absolute error of P(x = 1) over variables and models
    log_partition_error: float  # mean of (estimate - exact)
    bound: str  # what the estimate is supposed to be: "upper", "lower" or ""
    bound_holds: bool | None  # on every model; None where nothing is claimed
    sweeps: float  # mean
    converged: int
    models: int


@dataclass(frozen=True)
class Findings:
    """Everything the demo shows."""

    cells: tuple[Cell, ...]
    images: dict[str, NDArray[np.float64]]  # P(x = 1) by method, [side, side]
    side: int
    seed: int


def steps() -> int:
    """How many times :func:`experiment` calls its ``progress``."""
    return len(COUPLINGS) * 4


def experiment(side: int, models: int, seed: int, progress: Callable[[str], None]) -> Findings:
    """Runs everything; ``progress`` is told what comes next."""
    from loopwise.graph.builders import grid
    from loopwise.inference.exact import Exact
    from loopwise.notices import ConvergenceWarning

    graph = grid(side, side)
    cells: list[Cell] = []
    images: dict[str, NDArray[np.float64]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table has a column for it
        for coupling in COUPLINGS:
            potentials = random_spin_model(graph, coupling, models, seed)
            progress(f"coupling {coupling:g}: exact")
            exact: Beliefs = Exact()(graph, potentials)
            answers = {"exact": exact}
            for name, (method, bound) in _methods(seed).items():
                progress(f"coupling {coupling:g}: {name}")
                answers[name] = method(graph, potentials)
                cells.append(_measure(coupling, name, bound, answers[name], exact))
            if coupling == SHOWN_COUPLING:
                images = {
                    name: beliefs.variables[0, :, 1].reshape(side, side).numpy() for name, beliefs in answers.items()
                }
    return Findings(tuple(cells), images, side, seed)


def random_spin_model(graph: FactorGraph, coupling: float, models: int, seed: int) -> dict[str, Tensor]:
    """Log-potentials f_i s_i and w_ij s_i s_j of spins s = -1, +1; f uniform in ±FIELD, w in ±coupling.

    The same seed gives the same signs and relative strengths at every coupling.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def uniform(count: int) -> Tensor:
        return 2 * torch.rand(models, count, generator=generator, dtype=torch.float64) - 1

    spin = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    fields, weights = uniform(graph.variables), uniform(graph.group("pair").count)
    return {
        "unary": FIELD * fields[..., None] * spin,
        "pair": coupling * weights[..., None, None] * torch.outer(spin, spin),
    }


def _methods(seed: int) -> dict[str, tuple[Inference, str]]:
    from loopwise.inference.mean_field import MeanField
    from loopwise.inference.message_passing import BP, TRW
    from loopwise.inference.schedules import Sequential

    return {
        "BP": (BP(iterations=SWEEPS, tolerance=TOLERANCE, schedule=Sequential()), ""),
        "TRW": (TRW(iterations=SWEEPS, tolerance=TOLERANCE, schedule=Sequential()), "upper"),
        "mean field": (MeanField(iterations=SWEEPS, tolerance=TOLERANCE, seed=seed), "lower"),
    }


def _measure(coupling: float, name: str, bound: str, beliefs: Beliefs, exact: Beliefs) -> Cell:
    gap = (beliefs.log_partition - exact.log_partition).numpy()
    slack = ROUNDING * np.abs(exact.log_partition.numpy())
    holds = {"upper": bool((gap >= -slack).all()), "lower": bool((gap <= slack).all())}.get(bound)
    status = beliefs.status
    return Cell(
        coupling=coupling,
        method=name,
        error=float((beliefs.variables[..., 1] - exact.variables[..., 1]).abs().mean()),
        log_partition_error=float(gap.mean()),
        bound=bound,
        bound_holds=holds,
        sweeps=float(status.sweeps.double().mean()),
        converged=int((status.residual <= TOLERANCE).sum()),
        models=gap.size,
    )
