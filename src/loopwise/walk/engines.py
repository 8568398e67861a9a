"""Engines of walks: plain Python classes, or compiled loops over arrays.

In: a model, documents, a proposal, a metric. Out: a :class:`~loopwise.walk.sessions.WalkSession`. Stage: walking. Both
take the same steps: the same random numbers, the same sums in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.walk.compiled_session import CompiledSession
from loopwise.walk.models.model import Model
from loopwise.walk.plain_session import PlainSession
from loopwise.walk.proposal import Proposal
from loopwise.walk.sessions import WalkSession


class WalkEngine(ABC):
    """Opens sessions. ``metric`` may be None where nothing is learnt."""

    @abstractmethod
    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> WalkSession:
        """Prepares documents."""


@dataclass(frozen=True)
class Plain(WalkEngine):
    """Any model, proposal and metric that keep the contract, step by step in Python."""

    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> WalkSession:
        return PlainSession(model, documents, proposal, metric)


@dataclass(frozen=True)
class CompiledWalks(WalkEngine):
    """Compiled loops, for models, proposals and metrics that have a form of arrays."""

    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> WalkSession:
        corpus = model.compiled(documents, proposal, metric)
        if corpus is None:
            raise ValueError(
                f"compiled walks do not know {type(model).__name__} with {type(proposal).__name__} and "
                f"{type(metric).__name__}; use engine=lw.walk.Plain()"
            )
        return CompiledSession(model, corpus)


@dataclass(frozen=True)
class Fastest(WalkEngine):
    """Compiled where possible, else plain."""

    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> WalkSession:
        corpus = model.compiled(documents, proposal, metric)
        return PlainSession(model, documents, proposal, metric) if corpus is None else CompiledSession(model, corpus)
