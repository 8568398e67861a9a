"""Whether a difference of marginals can be trusted as a derivative (Domke spec, section 6).

In: marginals before and after a step. Out: reasons for doubt, in words; one :class:`GradientWarning`. Stage: gradient.
Nothing here costs a further inference call. All tensors have the examples in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.layout import Layout
from loopwise.notices import GradientWarning, warn

# Marginals that answer a step r g by more than this many times its size have changed their basin: with smooth
# marginals the quotient is a covariance, at most 1/4 in any cell for exact inference, a few hundred near criticality.
JUMP = 1e4
# Second over first differences: smooth marginals have about r there (1e-8), a kink or a jump on one side 1.
BEND = 0.1
# Rounding that one inference call leaves in a marginal, in units of machine epsilon.
ROUNDING = 100.0
# How far differences may leave the local polytope, relative to their size: the error of a run that stopped a little
# early is of the order of its tolerance.
TANGENT = 1e-2
# Changes count as settled when they are consistent to this many times the tolerance of the run itself (derivatives
# lag behind values by a factor of the number of sweeps), or to so many roundings.
SETTLED = 100.0
SETTLED_ROUNDING = 32.0
# Relative asymmetry that is no longer rounding: eps / r is 1e-8, and 1e-3 leaves room for generous tolerances.
ASYMMETRY = 1e-3

Parts = tuple[Tensor, ...]


@dataclass(frozen=True)
class Differences:
    """One perturbation: the result of a step ``size`` times ``adjoint`` forwards and back."""

    adjoint: Parts
    ahead: Parts
    behind: Parts  # of the step back, or of no step at all if one-sided
    base: Parts | None  # of no step, where it was made by as many sweeps as the others
    size: Tensor  # r [examples]

    def largest(self) -> Tensor:
        """The largest change of any marginal, ``[examples]``."""
        return largest(tuple(a - b for a, b in zip(self.ahead, self.behind, strict=True)))


def largest(parts: Sequence[Tensor]) -> Tensor:
    """Largest finite absolute value, ``[examples]`` (minus infinities are impossible cells)."""
    return torch.stack([_row_max(torch.where(torch.isfinite(part), part, 0.0).abs()) for part in parts]).amax(0)


def reasons_for_doubt(differences: Differences, temperature: float = 1.0) -> list[str]:
    """What is suspicious about ``differences``, in words with a remedy."""
    asked = largest(differences.adjoint) > 0
    change, step = differences.largest(), differences.size * largest(differences.adjoint)
    # Beliefs are at most 1, so this is the rounding of the largest of them.
    noise = ROUNDING * torch.finfo(change.dtype).eps
    reasons = []
    jumped = asked & (change > JUMP / min(temperature, 1.0) * step)
    if bool(jumped.any()):
        reasons.append(
            f"marginals jumped between optima{_where(jumped)}: use a concave entropy (TRW), damping, or Unroll()"
        )
    if differences.base is not None:
        pairs = zip(differences.ahead, differences.base, differences.behind, strict=True)
        bend = largest(tuple(ahead - 2 * base + behind for ahead, base, behind in pairs))
        bent = asked & ~jumped & (bend > BEND * change + noise)
        if bool(bent.any()):
            reasons.append(
                f"marginals are not smooth over the step{_where(bent)}: use a smaller multiplier, or Unroll()"
            )
    faint = asked & (change < noise) & (spread(differences.adjoint) > 0)
    if bool(faint.any()):
        reasons.append(
            f"marginals hardly move{_where(faint)} (saturated, or one adjoint dwarfs the others), so that rounding "
            "is a good part of the gradient: use a larger multiplier, CubeRoot(), FixedPoint() or Unroll()"
        )
    return reasons


def leaves_polytope(layout: Layout, differences: Differences) -> list[str]:
    """Whether the change of marginals fails to be consistent: B times it must be 0."""
    cells = max([int(layout.graph.cardinalities.max(initial=1))] + [m.group.cells for m in layout.message_groups])
    change = differences.largest()
    noise = ROUNDING * cells * torch.finfo(change.dtype).eps
    outside = inconsistency(layout, differences) > TANGENT * change + noise
    if not bool(outside.any()):
        return []
    return [
        f"changes of variable and factor marginals contradict each other{_where(outside)}, so inference is not at a "
        "fixed point: use a smaller tolerance, or Unroll()"
    ]


def inconsistency(layout: Layout, differences: Differences) -> Tensor:
    """Largest component of B times the change of marginals, ``[examples]``."""
    change = [ahead - behind for ahead, behind in zip(differences.ahead, differences.behind, strict=True)]
    unary = change[0]
    owner = torch.tensor(layout.state_variable, device=unary.device)
    worst = _row_max(unary.new_zeros(len(unary), layout.graph.variables).index_add(-1, owner, unary).abs())
    for member, table in zip(layout.message_groups, change[1:], strict=True):
        group = member.group
        for axis in range(group.arity):
            others = [2 + other for other in range(group.arity) if other != axis]
            first = layout.state_start[group.scopes[:, axis]]
            index = torch.tensor(first[:, None] + np.arange(group.shape[axis]), device=unary.device)
            worst = torch.maximum(worst, _row_max((table.sum(others) - unary[:, index]).abs()))
    return worst


def spread(parts: Sequence[Tensor]) -> Tensor:
    """How far each example's numbers are from being all the same (then they ask for nothing), ``[examples]``."""
    return torch.stack([_row_max(part) + _row_max(-part) for part in parts]).amax(0)


def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """Scalar products, ``[examples]``."""
    return torch.stack([(a * b).flatten(1).sum(1) for a, b in zip(left, right, strict=True)]).sum(0)


def warn_of(reasons: Sequence[str]) -> None:
    """One warning for one backward, pointing at the caller's line."""
    message = "perturbation may not give the gradient here: " + "; ".join(reasons)
    warn(message, GradientWarning)


def _row_max(values: Tensor) -> Tensor:
    return values.reshape(len(values), -1).amax(1) if values.numel() else values.new_zeros(len(values))


def _where(examples: Tensor) -> str:
    return f" in {int(examples.sum())} of {len(examples)} examples" if len(examples) > 1 else ""
