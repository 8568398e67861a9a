"""What every decoder is: beliefs in, a decision out, in a soft form for training and a hard one for testing.

In: :class:`Beliefs` and which variables are predicted. Out: a :class:`Decision`. Stage: decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.graph.evidence import Evidence, Role
from loopwise.graph.rows import Rows
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.decision import Decision
from loopwise.inference.rows import beliefs_in_rows, decision_of_rows, in_rows

OutputsLike = Evidence | Tensor | ArrayLike | None


class BeliefDecoder(ABC):
    """Turns beliefs into a decision: a distribution over the values of each variable.

    "Training always uses the soft decoder, testing the hard one" (ERMA): :meth:`soft` and :meth:`hard` give the two
    forms, which share their parameters and thresholds. A decoder that is trained or keeps a threshold is also a
    ``torch.nn.Module``, so that a module which holds it finds its parameters.
    """

    needs_refresh: bool = False  # whether :meth:`refresh` must see the corpus, once an epoch

    def __call__(self, beliefs: Beliefs, outputs: OutputsLike = None) -> Decision:
        """The decision on all variables of ``beliefs``.

        ``outputs``: which variables are predicted, bool ``[variables]`` or ``[*batch, variables]``, or an
        :class:`~loopwise.Evidence` (those of role OUTPUT); all by default. Every variable is decided; only decoders
        that look at several variables at once (thresholds, expected losses) look at the outputs alone.
        """
        return self.decide(beliefs, output_mask(beliefs, outputs))

    @abstractmethod
    def decide(self, beliefs: Beliefs, outputs: Tensor | None) -> Decision:
        """The decision; ``outputs`` is a checked mask ``[*b, variables]`` or None."""

    def decide_parts(self, beliefs: Beliefs, outputs: Tensor, rows: Rows) -> Decision:
        """The decision on a union of examples, each by itself; ``outputs`` is a mask ``[variables of the union]``.

        Goes by rows, one an example (padding is no output). Decoders that look at single variables and factors only
        override this: they may take the union as it is.
        """
        decision = self.decide(beliefs_in_rows(rows, beliefs), in_rows(rows, outputs, False))
        return decision_of_rows(rows, decision, beliefs)

    @abstractmethod
    def soft(self) -> BeliefDecoder:
        """The form for training: differentiable in the beliefs."""

    @abstractmethod
    def hard(self) -> BeliefDecoder:
        """The form for testing: what the trained system answers."""

    def at(self, step: int) -> BeliefDecoder:
        """The decoder at ``step`` of training: schedules become the numbers of that step, all else is shared."""
        return self

    def refresh(self, batches: Iterable[tuple[Beliefs, OutputsLike]]) -> None:
        """Sets what depends on a whole corpus, once an epoch; ``batches`` are its beliefs and their outputs."""
        return


def output_mask(beliefs: Beliefs, outputs: OutputsLike) -> Tensor | None:
    """Which variables are predicted, bool ``[*b, variables]`` on the device of the beliefs; None: all of them."""
    if outputs is None:
        return None
    if isinstance(outputs, Evidence):
        outputs = outputs.roles == Role.OUTPUT
    mask = torch.as_tensor(outputs if isinstance(outputs, Tensor) else np.array(outputs))
    if mask.dtype != torch.bool:
        raise ValueError(f"outputs must be True or False for each variable, not of dtype {mask.dtype}")
    variables = beliefs.graph.variables
    if mask.ndim == 0 or mask.shape[-1] != variables:
        raise ValueError(
            f"outputs of shape {tuple(mask.shape)} do not fit the graph: the last axis must have one entry for each of "
            f"{variables} variables"
        )
    try:
        mask.expand(*beliefs.batch_shape, variables)
    except RuntimeError:
        raise ValueError(
            f"outputs for {tuple(mask.shape[:-1])} examples do not fit beliefs for {tuple(beliefs.batch_shape)}; "
            "give one row for each example, or one for all"
        ) from None
    return mask.to(beliefs.states.device)
