r"""The gradient at a fixed point, by iterating the adjoint of one sweep (back belief propagation).

In: the transpose of one sweep's Jacobian. Out: adjoints of messages. Stage: gradient (Domke spec, section 5.3).
With messages :math:`m = F(m, \theta)` and beliefs :math:`b = G(m, \theta)`, solve
:math:`y = G_m^\top g + F_m^\top y`; then :math:`dL/d\theta = G_\theta^\top g + F_\theta^\top y`.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwise.gradient.base import Gradient


@dataclass(frozen=True)
class FixedPoint(Gradient):
    """Adjoint sweeps at the converged messages until they add less than ``tolerance``; no tape at all.

    Only valid if inference converged (else an error). The adjoint sweeps follow the method's own schedule; the
    sequential one needs fewer of them. ``anderson``: so many earlier iterates are combined for speed (0: none).
    """

    tolerance: float = 1e-8
    iterations: int = 1000
    anderson: int = 0

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {self.tolerance}")
        if self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {self.iterations}")
        if self.anderson < 0:
            raise ValueError(f"anderson must not be negative, got {self.anderson}")


@dataclass(frozen=True)
class OneStep(Gradient):
    """The cheap cut of :class:`FixedPoint`: only the last sweep is differentiated, the messages it starts from are
    taken as constants. Biased, but a single adjoint sweep; only valid if inference converged (else an error)."""
