"""Gradient estimators: how the backward of an inference call is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwise.lazy import value_of

if TYPE_CHECKING:
    from loopwise.gradient.covariance import Covariance as Covariance
    from loopwise.gradient.fixed_point import FixedPoint as FixedPoint
    from loopwise.gradient.fixed_point import OneStep as OneStep
    from loopwise.gradient.linear_solve import LinearSolve as LinearSolve
    from loopwise.gradient.linear_solve import Saddle as Saddle
    from loopwise.gradient.linear_solve import Schur as Schur
    from loopwise.gradient.perturbation import CubeRoot as CubeRoot
    from loopwise.gradient.perturbation import EqualSweeps as EqualSweeps
    from loopwise.gradient.perturbation import Perturbation as Perturbation
    from loopwise.gradient.perturbation import SquareRoot as SquareRoot
    from loopwise.gradient.perturbation import ToTolerance as ToTolerance
    from loopwise.gradient.perturbation import symmetry_gap as symmetry_gap
    from loopwise.gradient.solvers import Direct as Direct
    from loopwise.gradient.solvers import Minres as Minres
    from loopwise.gradient.unroll import Checkpoints as Checkpoints
    from loopwise.gradient.unroll import Fitting as Fitting
    from loopwise.gradient.unroll import Recompute as Recompute
    from loopwise.gradient.unroll import Store as Store
    from loopwise.gradient.unroll import Unroll as Unroll

# Where each name lives; a pair where the name is another one there. Nothing is imported before it is asked for.
_HOME: dict[str, tuple[str | tuple[str, str], ...]] = {
    "loopwise.gradient.unroll": ("Checkpoints", "Fitting", "Recompute", "Store", "Unroll",),
    "loopwise.gradient.fixed_point": ("FixedPoint", "OneStep",),
    "loopwise.gradient.perturbation": (
        "CubeRoot", "EqualSweeps", "Perturbation", "SquareRoot", "ToTolerance", "symmetry_gap",
    ),
    "loopwise.gradient.linear_solve": ("LinearSolve", "Saddle", "Schur",),
    "loopwise.gradient.solvers": ("Direct", "Minres",),
    "loopwise.gradient.covariance": ("Covariance",),
}  # fmt: skip

__all__ = [  # noqa: RUF022 (as above)
    "Checkpoints", "Fitting", "Recompute", "Store", "Unroll", "FixedPoint", "OneStep", "CubeRoot", "EqualSweeps",
    "Perturbation", "SquareRoot", "ToTolerance", "symmetry_gap", "LinearSolve", "Saddle", "Schur", "Direct",
    "Minres", "Covariance",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    value = globals()[name] = value_of(__name__, _HOME, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
