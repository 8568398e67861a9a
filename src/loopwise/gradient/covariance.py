r"""The gradient of exact marginals: their Jacobian is a covariance.

In: nothing. Out: :class:`Covariance`. Stage: gradient. :math:`\partial\mu_a/\partial\theta_b = \mathrm{Cov}(f_a, f_b)`,
since marginals are the gradient of log Z and the covariance of the indicators is its Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwise.gradient.base import Gradient


@dataclass(frozen=True)
class Covariance(Gradient):
    """Adjoints times the covariance of the indicators: one more pass over the junction tree, exact.

    The log-partition function may be differentiated twice (Hessian-vector products of the log-likelihood), marginals
    once.
    """
