r"""Which iterates the final weights are the mean of.

In: nothing. Out: small option objects. Stage: walking. Exact and sparse: an update by ``a`` at step t adds
:math:`(t - 1 - b)\,a` to a sum u, and :math:`\frac1{T-b}\sum_{t=b+1}^T \theta_t = \theta_T - u/(T-b)`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Averaging:
    """The mean over the weights after every step, those without update too; ``burn_in`` steps are left out.

    ``last_epoch``: of the last epoch only.
    """

    burn_in: int = 0
    last_epoch: bool = False

    def __post_init__(self) -> None:
        if self.burn_in < 0:
            raise ValueError(f"burn_in must not be negative, but is {self.burn_in}")
