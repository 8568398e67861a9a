"""In which order messages are sent. In: nothing. Out: small objects that engines understand. Stage: inference."""

from __future__ import annotations

from dataclasses import dataclass


class Schedule:
    """The order of messages within a sweep."""


@dataclass(frozen=True)
class Flooding(Schedule):
    """All messages to factors, then all messages to variables: one sweep, one message an edge. Fastest a message."""


@dataclass(frozen=True)
class Sequential(Schedule):
    """Variables breadth-first from the leaves to the root and back; each visit first renews the messages that have
    changed since. One sweep solves a tree; on a grid with rho = 1/2 this is TRW-S (Domke spec, section 3)."""


@dataclass(frozen=True)
class Residual(Schedule):
    """The message that would change most first (Elidan, McGraw & Koller 2006). A sweep is as many messages as edges."""
