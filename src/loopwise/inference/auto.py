"""The method that fits: exact inference where it is affordable, sequential BP (at temperature 0, search) elsewhere.

In: a problem without evidence. Out: the :class:`Beliefs` of whichever method was chosen; ``status.notes``
says why. Stage: inference. The decision is made after observed variables have been sliced away, since
evidence often turns a hopeless graph into an easy one.
"""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from loopwise.graph.elimination import JunctionTree, junction_tree
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.exact.junction_tree import Calibration
from loopwise.inference.exact.method import Exact, TooLargeError
from loopwise.inference.maximum.map_search import CELLS_A_SECOND, MapSearch
from loopwise.inference.messages.message_passing import BP, MessagePassing
from loopwise.inference.messages.schedules import Sequential
from loopwise.inference.pruning import StatePruning
from loopwise.notices import ConvergenceWarning
from loopwise.potentials.checks import broadcast_batches

logger = logging.getLogger(__name__)

MEMORY_LIMIT = 2.0 * 2**30  # bytes
CELL_LIMIT = 2.0**31  # clique cells over all examples: some 10 ns each, so about half a minute
HOPE = 2.0**4  # a greedy order this far over a limit may come under it when Exact searches longer
ASK_LIMIT = 200_000  # edges of a loopy graph beyond which looking for an order costs more than BP: assumed too wide
DAMPING = 0.5  # of the second attempt: what most often settles BP that oscillates


@dataclass(frozen=True)
class Auto(Inference):
    """:class:`Exact` if a junction tree stays within ``memory_limit`` bytes and ``cell_limit`` clique cells
    (over all examples), else ``otherwise``, continued with damping if it does not converge.

    Asking costs a greedy elimination of the graph: milliseconds for thousands of variables, seconds for a
    million. ``temperature`` is that of the method chosen: 0 asks for a joint maximum. There, what elimination cannot
    do is left to ``search``, which starts from decodings of ``otherwise`` and gives a bound besides.

    Parameters
    ----------
    memory_limit, cell_limit: bytes, and clique cells over all examples, up to which elimination is taken.
    temperature: of the method chosen; 0 asks for a joint maximum.
    otherwise: the method for graphs that are too large.
    search: what finds a maximum there.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> Auto()(graph, lw.TablePotentials.random(graph, seed=0)).status.exact
    True
    """

    takes_structured: ClassVar[bool] = True

    memory_limit: float = MEMORY_LIMIT
    cell_limit: float = CELL_LIMIT
    temperature: float = 1.0
    otherwise: MessagePassing = field(default_factory=lambda: BP(schedule=Sequential()))
    search: MapSearch = field(default_factory=MapSearch)

    def __post_init__(self) -> None:
        Exact(self.memory_limit, self.temperature)  # raises for values that neither method takes
        if not self.cell_limit > 0:
            raise ValueError(f"cell_limit must be a positive number of cells, not {self.cell_limit}")
        if self.otherwise.temperature not in (1.0, self.temperature):
            raise ValueError(
                f"otherwise has temperature {self.otherwise.temperature}, Auto has {self.temperature}: "
                "give Auto the one you want"
            )

    def run(self, problem: Problem) -> Beliefs:
        if problem.graph.structured:
            return _noted(self._approximate(problem), "chosen since structured factors need message passing")
        examples = max(1, _examples(problem))
        tree = self._promising_tree(problem, examples)
        if tree is not None:
            try:
                exact = Exact(self.memory_limit, self.temperature, self.cell_limit / examples).run(problem)
            except TooLargeError:
                pass  # the longer search did not bring it under the limits
            else:
                width = tree.induced_width
                return _noted(exact, f"chosen since a junction tree fits (induced width at most {width})")
        return _noted(
            self._approximate(problem),
            f"chosen since no junction tree was found within {self.memory_limit / 2**30:.3g} GiB "
            f"and {self.cell_limit:.2g} cells",
        )

    def _promising_tree(self, problem: Problem, examples: int) -> JunctionTree | None:
        """A greedy tree within, or not far over, the limits: of the graph, or of what its zeros leave."""
        layout = problem.graph.layout
        if layout.edges > ASK_LIMIT and not layout.is_forest:
            return None
        tree = self._greedy_tree(problem.graph, examples)
        if tree is None:
            pruning = _pruning(problem)
            if pruning is not None and pruning.empty is None:
                tree = self._greedy_tree(pruning.graph, examples)
        return tree

    def _greedy_tree(self, graph: FactorGraph, examples: int) -> JunctionTree | None:
        tree = junction_tree(graph, restarts=0, cell_limit=HOPE * self.cell_limit / examples)
        if tree is None:
            return None
        cells = sum(group.count * group.cells for group in graph.groups if group.arity)
        needed = Calibration.bytes_needed(tree, cells, examples, self.temperature == 0)
        return tree if needed <= HOPE * self.memory_limit else None

    def _approximate(self, problem: Problem) -> Beliefs:
        if self.temperature == 0 and not problem.graph.structured:
            return replace(self.search, start=self.otherwise, memory_limit=self.memory_limit).run(problem)
        method = replace(self.otherwise, temperature=self.temperature)
        if method.damping > 0 or method.tolerance == 0:
            return method.run(problem)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the second attempt gives its own
            first = method.run(problem)
        if first.status.converged:
            return first
        second = replace(method, damping=DAMPING).run(replace(problem, initial=first.messages))
        second.status = replace(
            second.status,
            sweeps=first.status.sweeps + second.status.sweeps,
            messages=first.status.messages + second.status.messages,
        )
        sweeps = int(first.status.sweeps.max())
        return _noted(second, f"damped by {DAMPING} after {sweeps} sweeps without convergence")


def infer(
    graph: FactorGraph,
    potentials: object,
    evidence: EvidenceLike = None,
    *,
    memory_limit: float = MEMORY_LIMIT,
    temperature: float = 1.0,
    seconds: float | None = None,
) -> Beliefs:
    """Beliefs by the method that fits: exact if a junction tree fits ``memory_limit`` bytes, else BP.

    ``status`` says which was chosen and why. Arguments as for every method (see :meth:`Inference.__call__`);
    temperature 0 asks for the most probable configuration: by elimination, else by search (:class:`MapSearch`), for
    which ``seconds`` may be given; elimination is then tried only if it should take no longer. More options:
    :class:`Auto`.

    Parameters
    ----------
    graph, potentials, evidence: as for every method (:meth:`Inference.__call__`).
    memory_limit: bytes that a junction tree may take.
    temperature: 0 asks for the most probable configuration.
    seconds: for the search, where elimination would take longer.

    Returns
    -------
    Beliefs, whose ``status`` says which method was chosen and why.

    >>> import loopwise as lw
    >>> small = lw.grid(4, 4)
    >>> lw.infer(small, lw.TablePotentials.random(small, seed=0)).status.exact
    True
    """
    if seconds is not None and temperature != 0:
        raise ValueError(f"seconds are for temperature 0, not {temperature}: leave them out")
    cell_limit = CELL_LIMIT if seconds is None else CELLS_A_SECOND * seconds
    auto = Auto(memory_limit, cell_limit, temperature, search=MapSearch(seconds=seconds))
    return auto(graph, potentials, evidence)


def _examples(problem: Problem) -> int:
    """Examples that exact inference would have to tell apart: those whose tables differ."""
    groups = [group for group in problem.graph.groups if group.arity]
    shapes = [problem.tables[group.name].shape[: -1 - group.arity] for group in groups]
    return math.prod(broadcast_batches(*shapes))


def _pruning(problem: Problem) -> StatePruning | None:
    """The graph over the values that the zeros of the tables leave, if they leave fewer."""
    flat = []
    for group in problem.graph.groups:
        if group.arity:
            table = problem.tables[group.name].detach()
            finite = ~torch.isneginf(table).reshape(-1, *table.shape[-1 - group.arity :])
            flat.append(finite.any(0).expand(group.count, *group.shape).reshape(-1).cpu().numpy())
    possible = np.concatenate([np.zeros(0, dtype=np.bool_), *flat])
    return None if possible.all() else StatePruning.of(problem.graph, possible)


def _noted(beliefs: Beliefs, note: str) -> Beliefs:
    logger.info("%s: %s", beliefs.status.method, note)
    beliefs.status = replace(beliefs.status, notes=(*beliefs.status.notes, note))
    return beliefs
