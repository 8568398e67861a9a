r"""The gradient at a fixed point as one sparse linear system.

In: converged marginals, their counting numbers, adjoints. Out: adjoints of natural parameters. Stage: gradient (Domke
2010, theorem 1 and eq. 13; spec, section 5.2). At the maximum of :math:`\theta\cdot\mu + H(\mu)` over
:math:`B\mu = d`, with the diagonal :math:`D = \partial^2 H/\partial\mu\,\partial\mu^\top` of entries
:math:`-c/\mu`, a change of parameters along g changes the marginals by u, where

.. math:: \begin{bmatrix}D & B^\top\\ B & 0\end{bmatrix}\begin{bmatrix}u\\ w\end{bmatrix}
          = \begin{bmatrix}-g\\ 0\end{bmatrix}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.gradient.base import Report
from loopwise.gradient.constraints import Constraints, Floats, Matrix
from loopwise.gradient.marginals import MarginalCounts, MarginalGradient, MarginalMap, Natural, Outcome
from loopwise.gradient.solvers import Direct, Minres, Solved
from loopwise.notices import GradientError, GradientWarning, warn

ZERO_COUNT = 1e-9  # counting numbers below are zeros that carry the rounding of their sum
RIDGE = 1e-10  # of scaled rows, where hard zeros may have made some of them redundant; refinement takes it out again
INEXACT = 1e-6  # a relative residual that is worth a warning


@dataclass(frozen=True)
class Saddle:
    """The saddle-point system itself, with the cells of factors eliminated beforehand: they have a pivot each, since
    every factor counts for more than 0. Survives variables with a counting number of 0."""

    def solve(self, system: AdjointSystem, solver: Direct | Minres) -> tuple[Floats, Floats, Solved]:
        from scipy.sparse import bmat, diags

        inner, g_states, g_cells = system.inner(), system.g_states, system.g_cells
        across = system.states
        # States are measured in units of the square root of their marginal: entries -c / mu become -c.
        diagonal = np.where(system.dead_states, 1.0, -system.counts)
        matrix = bmat([[diags(diagonal), across.T], [across, inner]], format="csr")
        right = np.concatenate([-system.root * g_states, -(system.cells @ (system.spread * g_cells))])
        regularised = None
        if system.degenerate:
            ridge = np.concatenate([np.zeros(len(diagonal)), np.full(inner.shape[0], RIDGE)])
            regularised = matrix + diags(ridge)
        solved = solver.solve(matrix, right, regularised)
        scaled, multipliers = solved.x[: len(diagonal)], solved.x[len(diagonal) :]
        return np.where(system.dead_states, 0.0, system.root * scaled), multipliers, solved


@dataclass(frozen=True)
class Schur:
    r"""Domke's equation 13: :math:`(D^{-1}B^\top(BD^{-1}B^\top)^{-1}BD^{-1} - D^{-1})\,g`. Undefined where a variable
    has a counting number of 0 (under Bethe: where it is in one factor)."""

    def solve(self, system: AdjointSystem, solver: Direct | Minres) -> tuple[Floats, Floats, Solved]:
        from scipy.sparse import diags

        zero = np.flatnonzero(np.abs(system.counts) < ZERO_COUNT)
        if zero.size:
            variable = int(system.constraints.layout.state_variable[zero[0]])
            raise GradientError(
                f"the counting number of variable {variable} is 0, so that D has no inverse in equation 13: use "
                "LinearSolve(form=Saddle())"
            )
        across, inverse = system.states, 1 / system.counts
        matrix = (system.inner() + across @ diags(inverse) @ across.T).tocsr()
        right = -(across @ (inverse * system.root * system.g_states)) - system.cells @ (system.spread * system.g_cells)
        ridge = diags(np.full(matrix.shape[0], RIDGE)) if system.degenerate else None
        solved = solver.solve(matrix, right, None if ridge is None else matrix + ridge)
        u_states = system.root * inverse * (system.root * system.g_states + across.T @ solved.x)
        return u_states, solved.x, solved


@dataclass(frozen=True)
class LinearSolve(MarginalGradient):
    r"""Solves the implicit system for the gradient: exact at a fixed point, whatever the method that found it.

    form: :class:`Saddle`, or :class:`Schur` (equation 13). solver: :class:`Direct`, or :class:`Minres` in place of the
    paper's SYMMLQ; near-deterministic marginals and strong interactions cost it iterations. Only valid if inference
    converged and has counting numbers (else an error). Examples of a batch are solved one after another. Impossible
    values have derivative 0. Cost: the unknowns are states and slots of the graph.
    """

    form: Saddle | Schur = field(default_factory=Saddle)
    solver: Direct | Minres = field(default_factory=Direct)

    def __post_init__(self) -> None:
        if not isinstance(self.form, (Saddle, Schur)):
            raise ValueError(f"form must be Saddle() or Schur(), got {self.form!r}")
        if not isinstance(self.solver, (Direct, Minres)):
            raise ValueError(f"solver must be Direct() or Minres(), got {self.solver!r}")

    def pull_back(
        self, inference: MarginalMap, theta: Natural, found: Outcome, adjoint: Natural, report: Report
    ) -> Natural:
        if inference.counting is None:
            raise GradientError(
                "LinearSolve needs the counting numbers of an entropy, which this method does not have: use "
                "Perturbation()"
            )
        if not found.converged:
            raise GradientError(
                f"LinearSolve needs a fixed point, but inference had not converged after {int(found.sweeps.max())} "
                "sweeps: use more iterations, damping, or Unroll()"
            )
        constraints = Constraints.of(inference.layout)
        marginals, adjoints = _rows(found.marginals), _rows(adjoint)
        changes = np.zeros_like(adjoints)
        for example in np.flatnonzero((adjoints != 0).any(1)):
            system = AdjointSystem.of(
                constraints, inference.counting, marginals[example], adjoints[example], self.solver.needs_full_rank
            )
            changes[example], solved = system.change(self.form, self.solver)
            report.iterations = max(report.iterations, solved.iterations)
            report.residual = max(report.residual, solved.residual)
        wanted = self.solver.tolerance if isinstance(self.solver, Minres) else INEXACT
        if report.residual > wanted:
            report.notes.append(f"residual above {wanted:.1g}")
            warn(
                f"LinearSolve stopped at a relative residual of {report.residual:.2g} after {report.iterations} "
                "iterations: use more iterations, Direct(), or FixedPoint()",
                GradientWarning,
            )
        return _natural(changes / inference.temperature, adjoint)


class AdjointSystem(NamedTuple):
    """The implicit system of one example, scaled so that its entries are of the order of 1.

    Columns of states are multiplied by the square roots of their marginals, rows divided by those of the slots they
    speak of. Impossible states, cells and slots thereby become zeros, and rows of their own with 1 on the diagonal.
    """

    constraints: Constraints
    g_states: Floats
    g_cells: Floats
    counts: Floats  # c_i of each state
    root: Floats  # square root of each state's marginal
    spread: Floats  # mu / c of each cell
    states: Matrix  # B over states, rows kept and scaled
    cells: Matrix  # B over cells, rows kept and scaled
    dead_states: NDArray[np.bool_]
    dead_rows: NDArray[np.bool_]
    degenerate: bool  # hard zeros may have made further rows redundant

    @staticmethod
    def of(
        constraints: Constraints, counting: MarginalCounts, marginals: Floats, g: Floats, full_rank: bool
    ) -> AdjointSystem:
        """``full_rank``: without redundant rows."""
        from scipy.sparse import diags

        layout = constraints.layout
        states, cells = marginals[: layout.states], marginals[layout.states :]
        keep = constraints.independent(states) if full_rank else np.ones(constraints.rows, dtype=np.bool_)
        spoken = np.concatenate([np.ones(layout.graph.variables), states[layout.slot_state]])[keep]
        dead_rows = spoken <= 0
        scale = diags(np.where(dead_rows, 0.0, 1 / np.sqrt(np.where(dead_rows, 1.0, spoken))))
        root = np.sqrt(np.maximum(states, 0.0))
        groups = [member.group for member in layout.message_groups]
        sizes = np.repeat([group.cells for group in groups], [group.count for group in groups]).astype(np.int64)
        return AdjointSystem(
            constraints=constraints,
            g_states=g[: layout.states],
            g_cells=g[layout.states :],
            counts=counting.variable[layout.state_variable],
            root=root,
            spread=np.maximum(cells, 0.0) / np.repeat(counting.factor, sizes),
            states=(scale @ constraints.states[keep] @ diags(root)).tocsr(),
            cells=(scale @ constraints.cells[keep]).tocsr(),
            dead_states=states <= 0,
            dead_rows=dead_rows,
            degenerate=bool((cells <= 0).any() or (states <= 0).any()),
        )

    def inner(self) -> Matrix:
        """B over cells, times mu / c, times its transpose: marginals of pairs of variables within factors."""
        from scipy.sparse import diags

        return self.cells @ diags(self.spread) @ self.cells.T + diags(self.dead_rows.astype(np.float64))

    def change(self, form: Saddle | Schur, solver: Direct | Minres) -> tuple[Floats, Solved]:
        """u: the change of all marginals along g, and how it was found."""
        u_states, multipliers, solved = form.solve(self, solver)
        u_cells = self.spread * (self.g_cells + self.cells.T @ multipliers)
        return np.concatenate([u_states, u_cells]), solved


def _rows(natural: Natural) -> Floats:
    """One row of float64 an example."""
    flat = [part.detach().reshape(len(part), -1).to("cpu", torch.float64) for part in natural.parts]
    rows: Floats = torch.cat(flat, 1).numpy()
    return rows


def _natural(rows: Floats, like: Natural) -> Natural:
    """The inverse of :func:`_rows`."""
    parts: list[Tensor] = []
    start = 0
    for part in like.parts:
        width = part[0].numel() if len(part) else 0
        parts.append(torch.from_numpy(rows[:, start : start + width].copy()).to(part).reshape(part.shape))
        start += width
    return Natural.of(tuple(parts))
