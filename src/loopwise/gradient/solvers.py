"""Solvers of sparse symmetric indefinite systems, by SciPy.

In: a matrix and a right-hand side. Out: :class:`Solved`. Stage: gradient, below
:mod:`loopwise.gradient.linear_solve`. Matrices come scaled: their entries are of the order of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.gradient.constraints import Floats, Matrix
from loopwise.notices import GradientError

REFINEMENTS = 4  # at most; each gains the digits that the first solution had


class Solved(NamedTuple):
    """A solution, its cost, and the residual norm relative to the right-hand side's."""

    x: Floats
    iterations: int
    residual: float


@dataclass(frozen=True)
class Direct:
    """Sparse LU factorisation in SuperLU's column order, then iterative refinement. Best for small graphs."""

    @property
    def needs_full_rank(self) -> bool:
        return True

    def solve(self, matrix: Matrix, right: Floats, regularised: Matrix | None = None) -> Solved:
        """``regularised``: a nearby matrix to factorise where ``matrix`` itself may be singular."""
        from scipy.sparse.linalg import splu

        chosen = matrix if regularised is None else regularised
        try:
            # COLAMD: minimum degree of A + A' fills up beyond measure where zeros on the diagonal swap rows.
            factors = splu(chosen.tocsc(), permc_spec="COLAMD")
        except RuntimeError:
            raise GradientError(
                "the implicit system is singular: this fixed point is not isolated, so its marginals have no gradient; "
                "use Unroll()"
            ) from None
        norm = float(np.linalg.norm(right)) or 1.0
        x = factors.solve(right)
        error = right - matrix @ x
        for _ in range(REFINEMENTS):
            better = x + factors.solve(error)
            left = right - matrix @ better
            if not np.linalg.norm(left) < 0.5 * np.linalg.norm(error):
                break
            x, error = better, left
        return Solved(x, 1, float(np.linalg.norm(error)) / norm)


@dataclass(frozen=True)
class Minres:
    """The minimal residual method (Paige and Saunders 1975). It stands in for the SYMMLQ of Domke 2010, which SciPy
    does not have: both are Lanczos methods for symmetric indefinite systems and need one product an iteration.

    Stops at a residual of ``tolerance`` relative to the right-hand side, or after ``iterations``.
    """

    tolerance: float = 1e-10
    iterations: int = 20_000

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {self.tolerance}")
        checked_whole("iterations", self.iterations)

    @property
    def needs_full_rank(self) -> bool:
        return False

    def solve(self, matrix: Matrix, right: Floats, regularised: Matrix | None = None) -> Solved:
        """``regularised`` is of no use here: a singular system that has a solution is no difficulty."""
        from scipy.sparse.linalg import minres

        made = 0

        def count(_: Floats) -> None:
            nonlocal made
            made += 1

        norm = float(np.linalg.norm(right))
        x, residual, aim = np.zeros_like(right), 1.0 if norm else 0.0, self.tolerance
        while residual > self.tolerance and made < self.iterations:
            # SciPy's test is relative to the size of matrix and solution as well: ours may need another round.
            before, started = residual, made
            x, _ = minres(matrix, right, x0=x, rtol=aim, maxiter=self.iterations - made, callback=count)
            residual = float(np.linalg.norm(right - matrix @ x)) / norm
            aim *= 0.1
            if made == started or (residual > 0.9 * before and aim < np.finfo(np.float64).eps):
                break
        return Solved(x, made, residual)
