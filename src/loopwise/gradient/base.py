"""What every gradient estimator shares: its name, the methods it suits, and a report of what its backward did.

In: nothing. Out: :class:`Gradient`, the base of all estimators, and :class:`Report`. Stage: gradient. An estimator is a
frozen dataclass of options; an inference method that names it computes its backward that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loopwise.notices import GradientError


class Gradient:
    """How the backward of an inference call is computed."""


@dataclass
class Report:
    """What the last backward through one inference call did; empty until it ran.

    ``iterations``: adjoint sweeps, solver iterations or further inference calls. ``residual``: how far the adjoint
    was from its equation.
    """

    estimator: str
    iterations: int = 0
    residual: float = 0.0
    notes: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Forgets the backward before."""
        self.iterations, self.residual = 0, 0.0
        self.notes.clear()

    def __str__(self) -> str:
        parts = [self.estimator]
        if self.iterations:
            parts.append(f"{self.iterations} iterations, residual {self.residual:.2g}")
        return ", ".join([*parts, *self.notes])


def check_gradient_of(method: object, gradient: object, valid: Iterable[type[Gradient]]) -> None:
    """Refuses an estimator that ``method`` has no use for."""
    kinds = tuple(valid)
    if isinstance(gradient, kinds):
        return
    name = type(gradient).__name__ if isinstance(gradient, Gradient) else repr(gradient)
    names = ", ".join(kind.__name__ for kind in kinds) or "none: it is not differentiable"
    raise GradientError(f"{type(method).__name__} cannot be differentiated by {name}; valid are: {names}")


def check_finite(adjoint: Tensor | None, of: str = "beliefs") -> None:
    """Refuses what a loss sends back where it has no gradient (None: nothing was sent)."""
    if adjoint is not None and not bool(torch.isfinite(adjoint).all()):
        raise GradientError(
            f"the loss sends NaN or infinite adjoints to the {of}: it has no gradient there (the logarithm of a "
            "belief that is 0, or a division by one); clamp the beliefs, or leave impossible values out"
        )
