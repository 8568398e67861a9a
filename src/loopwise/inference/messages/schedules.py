"""In which order messages are sent. In: nothing. Out: small objects that engines understand. Stage: inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.layout import Layout
from loopwise.graph.parts import Parts


class Schedule:
    """The order of messages within a sweep."""


@dataclass(frozen=True)
class Flooding(Schedule):
    """All messages to factors, then all messages to variables: one sweep, one message an edge. Fastest a message."""


@dataclass(frozen=True)
class Sequential(Schedule):
    """Variables breadth-first from the leaves to the root and back; each visit first renews the messages that have
    changed since. One sweep solves a tree; on a grid with rho = 1/2 this is TRW-S (Domke spec, section 3).

    >>> import loopwise as lw
    >>> graph = lw.chain(9)
    >>> lw.BP(iterations=1, schedule=Sequential())(graph, lw.TablePotentials.random(graph, seed=0)).status.exact
    True
    """


@dataclass(frozen=True)
class Residual(Schedule):
    """Messages that may change most first (Elidan, McGraw & Koller 2006). A sweep is as many messages as edges.

    What a message would become is worked out only when it is sent: until then its change is bounded by those of the
    messages it is made of (RBP0L, Sutton & McCallum 2007). Messages go in rounds: each sends those whose bound is
    within a factor of eight of the largest when it began, in the order of edges, every other round in the reverse
    order. After 16 sweeps, when a model has turned out to be hard, the factor is two: a stricter order converges more
    often.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> beliefs = lw.BP(schedule=lw.Residual())(graph, lw.TablePotentials.random(graph, seed=0))
    >>> beliefs.status.converged
    True
    """


@dataclass(frozen=True)
class RandomSequential(Schedule):
    """One message after another, each edge once a sweep, in an order drawn anew for each sweep (libDAI's SEQRND).

    A message is made of the latest ones. The same ``seed`` gives the same orders, for all examples of a batch alike.
    Good where flooding oscillates, and as a comparison for other orders. In a union each part has the orders that it
    would have alone.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> beliefs = lw.BP(schedule=lw.inference.RandomSequential(seed=1))(graph, lw.TablePotentials.random(graph, seed=0))
    >>> beliefs.status.converged
    True
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"the seed of a random schedule must be a whole number from 0 on, got {self.seed!r}")

    def order(self, edges: int, sweep: int) -> Integers:
        """The edges in the order of sweep ``sweep``."""
        return np.random.default_rng([self.seed, sweep]).permutation(edges)


@dataclass(frozen=True)
class Groups(Schedule):
    """Groups of factors in a given order: each sends to its variables, and these send again before the next group does.

    ``order``: the names of all groups that send messages, tables of two variables or more and structured factors. Good
    where some factors are worth hearing last: ``Groups(("pair", "tree"))`` ends a sweep with the messages of a tree, so
    that beliefs are those of one. ``uniform_start``: messages of variables begin uniform, too, so that in the first
    sweep the first group hears nothing of their own potentials (the schedule of Gormley, Dredze & Eisner 2015).

    Parameters
    ----------
    order: the names of all groups that send messages.
    uniform_start: whether messages of variables begin uniform, too.

    >>> import loopwise as lw
    >>> graph = lw.FactorGraph([2, 2, 2], {"unary": [[0], [1], [2]], "a": [[0, 1]], "b": [[1, 2]]})
    >>> method = lw.BP(schedule=Groups(("a", "b")))
    >>> method(graph, lw.TablePotentials.random(graph, seed=0)).status.exact
    True
    """

    order: tuple[str, ...]
    uniform_start: bool = False

    def __post_init__(self) -> None:
        names = (self.order,) if isinstance(self.order, str) else tuple(self.order)
        object.__setattr__(self, "order", names)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the schedule names the group {twice!r} twice; a group sends once a sweep")


def stages(schedule: Schedule, graph: FactorGraph) -> tuple[tuple[str, ...], ...]:
    """The names of the groups of ``graph`` that send together, stage by stage; all in one unless the schedule says how.

    A group of which evidence or a union made several (``pair|1``, ``pair[2x3]``) goes by its first name."""
    sending = tuple(name for name, _ in graph.layout.named_factors)
    if not isinstance(schedule, Groups):
        return (sending,)
    known = {name: called(name, schedule.order) for name in sending}
    found = [tuple(name for name in sending if known[name] == turn) for turn in schedule.order]
    return tuple(stage for stage in found if stage)


def check_groups(schedule: Schedule, graph: FactorGraph) -> None:
    """Refuses a schedule that names a group which ``graph``, as it was given, does not have, or leaves one out."""
    if not isinstance(schedule, Groups):
        return
    everything = (*(group.name for group in graph.groups), *(named.name for named in graph.structured))
    known = {name: called(name, schedule.order) for name in everything}
    for name in schedule.order:
        if name not in known.values():
            raise ValueError(f"the schedule names the group {name!r}; the graph has {list(everything)}")
    for name, _ in graph.layout.named_factors:
        if known[name] is None:
            raise ValueError(f"the schedule leaves out the group {name!r}; give every group that sends messages a turn")


def called(name: str, order: tuple[str, ...]) -> str | None:
    """The entry of ``order`` that a group goes by."""
    if name in order:
        return name
    return next((turn for turn in order if name.startswith((f"{turn}|", f"{turn}["))), None)


def random_order(schedule: RandomSequential, layout: Layout, sweep: int) -> Integers:
    """The edges in the order of a sweep; in a union each part has that which it would have alone."""
    if layout.graph.part_start is None:
        return schedule.order(layout.edges, sweep)
    parts = Parts.of(layout.graph)
    mine = np.argsort(parts.edge_part, kind="stable")
    pieces = np.split(mine, np.cumsum(parts.edges)[:-1])
    return np.concatenate([edges[schedule.order(len(edges), sweep)] for edges in pieces])
