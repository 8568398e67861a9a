"""What the factors that count their ON variables share: a log-sum-exp over all others, for each variable at once.

In: log-odds. Out: log sums. Stage: structure. Plain torch, differentiable to any order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.automaton_messages import OneOfMessages
from loopwise.graph.structured.base import BinaryFactor, from_log_odds, log_odds


@dataclass(frozen=True, eq=False)
class OneOf(BinaryFactor):
    """A factor over ``variables`` binary variables of which one may be ON; subclasses say whether none may."""

    compiled = OneOfMessages

    @property
    @abstractmethod
    def none_allowed(self) -> bool:
        """Whether all variables may be OFF."""

    @property
    def transitions(self) -> Integers:
        """The factor as an automaton, for its compiled messages: state 1 once a variable was ON, and no second one."""
        return np.tile(np.array([[0, 1], [1, -1]], dtype=np.int64), (self.variables, 1, 1))

    @property
    def accepted(self) -> np.ndarray:
        return np.array([0.0 if self.none_allowed else -np.inf, 0.0])

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        odds, common = log_odds(incoming)
        weights, contradicted = self._alternatives(odds)
        total = log_sum(weights)
        return torch.where(contradicted, -torch.inf, total + common)

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        r"""Log-odds :math:`-\log(c + \sum_{f\ne e} e^{a_f})`, c = 1 if none may be ON and 0 otherwise; O(variables)."""
        return self._messages(incoming, log_sum_of_others)

    def max_messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._messages(incoming, largest_of_others)

    def _messages(self, incoming: Tensor, of_others: Callable[[Tensor], Tensor]) -> Tensor:
        odds, _ = log_odds(incoming)
        weights, contradicted = self._alternatives(odds)
        self.refuse(contradicted | torch.isneginf(weights).all(-1))
        must = torch.isposinf(odds)
        # With one variable forced, all others are sent OFF; it is itself sent what the others' own weights say.
        free = self._with_none(torch.where(must, -torch.inf, odds))
        others = of_others(free)[..., : self.variables]
        forced_elsewhere = must.any(-1, keepdim=True) & ~must
        return from_log_odds(torch.where(forced_elsewhere, -torch.inf, -others))

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        weights, contradicted = self._alternatives(log_odds(incoming.detach())[0])
        self.refuse(contradicted | torch.isneginf(weights).all(-1))
        return self._values(weights.argmax(-1))

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        weights, contradicted = self._alternatives(log_odds(incoming.detach())[0])
        self.refuse(contradicted | torch.isneginf(weights).all(-1))
        shares = weights.softmax(-1).double().cumsum(-1)
        draws = torch.from_numpy(generator.random((count, *shares.shape[:-1], 1))).to(shares.device)
        return self._values((draws * shares[..., -1:] >= shares).sum(-1))

    def _with_none(self, odds: Tensor) -> Tensor:
        """Log weights of the possible choices: each variable, then (if allowed) none."""
        if not self.none_allowed:
            return odds
        return torch.cat([odds, odds.new_zeros(*odds.shape[:-1], 1)], -1)

    def _alternatives(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Log weights of the choices, a forced variable leaving no other; and where two are forced."""
        must = torch.isposinf(odds)
        weights = self._with_none(torch.where(must, 0.0, odds))
        some = must.any(-1, keepdim=True)
        chosen = torch.cat([must, torch.zeros_like(some)], -1) if self.none_allowed else must
        return torch.where(some & ~chosen, -torch.inf, weights), must.sum(-1) > 1

    def _values(self, choice: Tensor) -> Tensor:
        return (choice[..., None] == torch.arange(self.variables, device=choice.device)).to(torch.int64)


def log_sum(values: Tensor) -> Tensor:
    """logsumexp over the last axis, -inf with gradient 0 where all are."""
    dead = torch.isneginf(values).all(-1, keepdim=True)
    return torch.where(dead[..., 0], -torch.inf, torch.where(dead, 0.0, values).logsumexp(-1))


def with_largest_zero(values: Tensor) -> Tensor:
    """Less the largest entry of the last axis, so that long sums of logs keep their digits."""
    high = values.detach().amax(-1, keepdim=True)
    return values - torch.where(torch.isneginf(high), 0.0, high)


def log_sum_of_others(values: Tensor) -> Tensor:
    """For each entry of the last axis the log-sum-exp of all others.

    Of the whole sum only a part is taken off that is not its largest term, so nothing cancels; the entry of the largest
    term gets a sum of its own."""
    top = values.detach().argmax(-1, keepdim=True)
    is_top = torch.zeros_like(values, dtype=torch.bool).scatter(-1, top, True)
    high = values.detach().amax(-1, keepdim=True)
    high = torch.where(torch.isneginf(high), 0.0, high)
    terms = torch.exp(values - high)
    rest = (terms.sum(-1, keepdim=True) - terms).masked_fill(is_top, 1.0)
    dead = rest <= 0  # only where the largest is -inf itself
    without = torch.where(dead, -torch.inf, torch.log(torch.where(dead, 1.0, rest)) + high)
    own = log_sum(values.masked_fill(is_top, -torch.inf))
    return torch.where(is_top, own[..., None], without)


def largest_of_others(values: Tensor) -> Tensor:
    """For each entry of the last axis the largest of all others."""
    top = values.argmax(-1, keepdim=True)
    is_top = torch.zeros_like(values, dtype=torch.bool).scatter(-1, top, True)
    second = values.masked_fill(is_top, -torch.inf).amax(-1, keepdim=True)
    return torch.where(is_top, second, values.amax(-1, keepdim=True))
