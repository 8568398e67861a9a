"""Gradient estimators: how the backward of an inference call is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.lazy import Home, lazily

if TYPE_CHECKING:
    from loopwise.gradient.covariance import Covariance
    from loopwise.gradient.fixed_point import FixedPoint, OneStep
    from loopwise.gradient.linear_solve import LinearSolve, Saddle, Schur
    from loopwise.gradient.perturbation import (
        CubeRoot,
        EqualSweeps,
        Perturbation,
        SquareRoot,
        ToTolerance,
        symmetry_gap,
    )
    from loopwise.gradient.solvers import Direct, Minres
    from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Unroll

# Where each name lives; a pair where the name is another one there. Nothing is imported before it is asked for.
_HOME: Home = {
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

__getattr__, __dir__ = lazily(__name__, _HOME)
