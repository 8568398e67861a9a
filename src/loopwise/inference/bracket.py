"""A bracket around log Z: mean field below, tree-reweighted message passing above.

In: a problem without evidence. Out: :class:`Bracket`. Stage: inference. What BP says of log Z is neither bound; two
further runs, each about as long, say between which numbers the truth lies.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from loopwise.inference.base import Problem
from loopwise.notices import ConvergenceWarning

SWEEPS = 1000  # of TRW at most: strong couplings take many


class Bracket(NamedTuple):
    """Numbers between which log Z lies, ``[*batch]`` each; -inf and inf where no bound was found."""

    lower: Tensor
    upper: Tensor


def bracket(
    problem: Problem, temperature: float = 1.0, lower: Tensor | None = None, upper: Tensor | None = None
) -> Bracket:
    """Bounds of log Z (at a temperature t, of :math:`t\\log Z(\\theta/t)`), without gradient.

    The lower one is mean field's, right at any product distribution; the upper one is TRW's with the appearance
    probabilities of spanning trees, and inf for examples whose run did not reach a fixed point. ``lower``, ``upper``:
    one that is known already.
    """
    from loopwise.inference.mean_field.method import MeanField
    from loopwise.inference.messages.message_passing import ARRIVED, TRW
    from loopwise.inference.messages.schedules import Sequential

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what did not converge gives no bound, or a looser one
        if lower is None:
            lower = MeanField(temperature=temperature).run(problem).log_partition
        if upper is None:
            run = TRW(schedule=Sequential(), iterations=SWEEPS, temperature=temperature).run(problem)
            arrived = run.status.residual <= ARRIVED.get(lower.dtype, 2e-5)
            upper = torch.where(arrived, run.log_partition, torch.inf)
        return Bracket(lower.detach(), upper.detach())
