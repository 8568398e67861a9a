"""What tree factors share: binary variables that are the edges of a sentence, and an autograd function around kernels.

In: log messages on edges. Out: what :class:`StructuredFactor` promises. Stage: structure. The two kinds of tree differ
in the kernels they call (:class:`EdgeRun`, :meth:`EdgeFactor.best_heads`, :meth:`EdgeFactor.drawn_heads`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from loopwise.compiled.threads import available_threads, in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.base import StructuredFactor, from_log_odds, log_odds
from loopwise.notices import GradientError

Floats = NDArray[np.float64]
LEAST_CHUNK = 4  # sentences that are worth a thread


def all_edges(tokens: int) -> Integers:
    """Every possible edge (head, modifier) of ``tokens`` tokens, root 0: by head, then by modifier, ``[n * n, 2]``."""
    head, modifier = np.divmod(np.arange((tokens + 1) ** 2), tokens + 1)
    keep = (modifier != 0) & (head != modifier)
    return np.stack([head[keep], modifier[keep]], axis=1).astype(np.int64)


class EdgeRun(ABC):
    """Inside-outside of sentences: score matrices ``(n + 1)^2``, one after another, in; as many out."""

    def __init__(self, scores: Floats, lengths: Integers, single_root: bool) -> None:
        from loopwise.graph.structured.kernels.tree_columns import TreeBatch, TreeBeliefs

        self.scores, self.trees = scores, TreeBatch(scores, matrix_starts(lengths), lengths, single_root)
        self.log_partition = np.empty(len(lengths))  # [sentences]
        self.log_on, self.log_off = np.full(scores.shape, -np.inf), np.zeros(scores.shape)  # log p, log(1 - p)
        self.messages, gradient = np.zeros(scores.shape), np.empty(scores.size)  # log-odds sent to the edges
        found = TreeBeliefs(self.log_on, self.log_off, self.messages, self.log_partition)
        _in_chunks(lambda share: self.forward(gradient, found, share), len(lengths))

    def pull_back(self, marginal_adjoint: Floats, logit_adjoint: Floats) -> Floats:
        """Adjoints of the scores from those of p and of logit p."""
        from loopwise.graph.structured.kernels.tree_columns import EdgeAdjoints

        adjoint = np.zeros(self.scores.shape)
        given = EdgeAdjoints(self.log_on, self.log_off, marginal_adjoint, logit_adjoint)
        _in_chunks(lambda share: self.backward(given, adjoint, share), len(self.trees.lengths))
        return adjoint

    @abstractmethod
    def forward(self, gradient: Floats, found: Any, share: tuple[int, int]) -> None:
        """Calls the kernel that fills ``found`` for the chunk ``share[0]`` of ``share[1]``; ``gradient``: room."""

    @abstractmethod
    def backward(self, given: Any, adjoint: Floats, share: tuple[int, int]) -> None:
        """Calls the one that adds to ``adjoint``."""


@dataclass(frozen=True, eq=False)
class EdgeFactor(StructuredFactor):
    """A factor over binary edge variables of one sentence (value 1: the edge is there).

    ``tokens``: how many, not counting the root 0. ``edges``: (head, modifier) of each variable of the scope, an integer
    array ``[variables, 2]``; None is all of them, as :func:`all_edges` orders them. Edges that are left out are never
    there. ``single_root``: whether exactly one token has the root as its head.
    """

    tokens: int
    single_root: bool = False
    edges: Any = None

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a tree needs at least one token, not {self.tokens}")
        edges = all_edges(self.tokens) if self.edges is None else _checked_edges(self.edges, self.tokens)
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return (2,) * len(self.edges)

    @cached_property
    def cells(self) -> Integers:
        """Where each variable's edge stands in a flat matrix (head, modifier)."""
        cells: Integers = self.edges[:, 0] * (self.tokens + 1) + self.edges[:, 1]
        return cells

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        odds, common = log_odds(incoming)
        return self._run(odds)[0] + common

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        """All at once, O(n^3): log-odds log p / (1 - p) - a, with log(1 - p) from the other heads."""
        total, _, messages = self._run(log_odds(incoming)[0])
        self.refuse(torch.isneginf(total))
        return from_log_odds(messages)

    def edge_marginals(self, odds: Tensor) -> Tensor:
        """Edge marginals ``[*batch, variables]`` of scores (log-odds) of the edges: inside-outside without messages."""
        total, marginals, _ = self._run(odds)
        self.refuse(torch.isneginf(total))
        return marginals

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        scores, batch = self._scores(log_odds(incoming.detach())[0])
        best, heads = self.best_heads(scores)
        self.refuse(torch.from_numpy(np.isneginf(best)).reshape(batch))
        return self.values(torch.from_numpy(heads).reshape(*batch, self.tokens).to(incoming.device))

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        scores, batch = self._scores(log_odds(incoming.detach())[0])
        total, heads = self.drawn_heads(scores, count, generator)
        self.refuse(torch.from_numpy(np.isneginf(total)).reshape(batch))
        return self.values(torch.from_numpy(heads).reshape(count, *batch, self.tokens).to(incoming.device))

    def branching(self, values: Tensor) -> Sequence[int]:
        """The edges that are ON: another tree has as many, so it lacks one of them."""
        found: list[int] = values.nonzero()[:, 0].tolist()
        return found

    def values(self, heads: Tensor) -> Tensor:
        """Edge variables ``[*batch, variables]`` of the heads of tokens 1 to n ``[*batch, tokens]``."""
        head, modifier = (torch.tensor(column, device=heads.device) for column in self.edges.T)
        return (heads[..., modifier - 1] == head).to(torch.int64)

    def heads(self, values: Tensor) -> Tensor:
        """Heads of tokens 1 to n ``[*batch, tokens]`` of edge variables that form a tree: the inverse of ``values``."""
        head, modifier = (torch.tensor(column, device=values.device) for column in self.edges.T)
        found = torch.zeros(*values.shape[:-1], self.tokens, dtype=torch.int64, device=values.device)
        return found.index_add(-1, modifier - 1, values.to(torch.int64) * head)

    def describe(self) -> str:
        root = "single-root " if self.single_root else ""
        return f"the {root}{type(self).__name__} of {self.tokens} tokens: its edges leave no tree"

    @abstractmethod
    def run_trees(self, scores: Floats, lengths: Integers) -> EdgeRun:
        """Inside-outside of sentences of ``lengths`` tokens, with as many roots as this factor's: their matrices one
        after another, flat."""

    @abstractmethod
    def best_heads(self, scores: Floats) -> tuple[Floats, Integers]:
        """Best scores ``[examples]`` (-inf: none) and the heads of tokens 1 to n ``[examples, n]``."""

    @abstractmethod
    def drawn_heads(self, scores: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Integers]:
        """log Z ``[examples]`` and heads ``[count, examples, n]``."""

    def _scores(self, odds: Tensor) -> tuple[Floats, torch.Size]:
        """Dense score matrices, -inf where there is no variable, and the batch shape."""
        flat = odds.detach().reshape(-1, len(self.edges)).to("cpu", torch.float64).numpy()
        scores = np.full((len(flat), (self.tokens + 1) ** 2), -np.inf)
        scores[:, self.cells] = flat
        return scores, odds.shape[:-1]

    def _run(self, odds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log Z ``[*batch]``, p and log-odds messages ``[*batch, variables]``."""
        flat = odds.reshape(-1, odds.shape[-1])
        found: tuple[Tensor, Tensor, Tensor] = _EdgeMarginals.apply(self, flat)  # type: ignore[no-untyped-call]
        total, marginals, messages = found
        return total.reshape(odds.shape[:-1]), marginals.reshape(odds.shape), messages.reshape(odds.shape)


class _EdgeMarginals(torch.autograd.Function):
    """log Z, p and messages of log-odds ``[examples, variables]``. Backward: one Hessian-vector product, C v.

    log Z can be differentiated twice (its derivative is p, which is differentiated here); p and messages once."""

    @staticmethod
    def forward(ctx: Any, factor: EdgeFactor, odds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores, _ = factor._scores(odds)
        run = factor.run_trees(scores.reshape(-1), np.full(len(scores), factor.tokens))
        cells = factor.cells
        marginals = torch.from_numpy(np.exp(run.log_on.reshape(scores.shape).take(cells, 1))).to(odds)
        ctx.factor, ctx.run = factor, run
        ctx.save_for_backward(odds, marginals)
        ctx.set_materialize_grads(False)
        messages = torch.from_numpy(run.messages.reshape(scores.shape).take(cells, 1)).to(odds)
        return torch.from_numpy(run.log_partition).to(odds), marginals.clone(), messages

    @staticmethod
    def backward(
        ctx: Any, total_adjoint: Tensor | None, marginal_adjoint: Tensor | None, message_adjoint: Tensor | None
    ) -> tuple[None, Tensor | None]:
        odds, marginals = ctx.saved_tensors
        pulled: Tensor | None = None
        if total_adjoint is not None:
            if torch.is_grad_enabled():
                marginals = _EdgeMarginals.apply(ctx.factor, odds)[1]  # type: ignore[no-untyped-call]
            pulled = total_adjoint[:, None] * marginals
        if marginal_adjoint is not None or message_adjoint is not None:
            with torch.no_grad():
                once = _pulled_once(ctx, odds, marginal_adjoint, message_adjoint)
            if torch.is_grad_enabled():
                sources = [source for source in (odds, marginal_adjoint, message_adjoint) if source is not None]
                once = _Once.apply(once, *sources)  # type: ignore[no-untyped-call]
            pulled = once if pulled is None else pulled + once
        return None, pulled


def _pulled_once(ctx: Any, odds: Tensor, marginal_adjoint: Tensor | None, message_adjoint: Tensor | None) -> Tensor:
    """Messages are logit p - a, so the part of a itself is taken off; hard edges have no adjoint."""
    factor, examples = ctx.factor, len(odds)
    size = (factor.tokens + 1) ** 2
    wide = np.zeros((2, examples, size))
    for place, adjoint in enumerate((marginal_adjoint, message_adjoint)):
        if adjoint is not None:
            wide[place][:, factor.cells] = adjoint.detach().to("cpu", torch.float64).numpy()
    adjoints = ctx.run.pull_back(*wide.reshape(2, -1)).reshape(examples, size)
    pulled = torch.from_numpy(adjoints.take(factor.cells, 1)).to(odds)
    if message_adjoint is None:
        return pulled
    return pulled - torch.where(torch.isinf(odds), 0.0, message_adjoint)


class _Once(torch.autograd.Function):
    """A value as it is, connected to its sources, that refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *sources: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple[None, ...]:
        raise GradientError(
            "messages and marginals of a tree factor are differentiated once: use its log-partition function, or a "
            "dense table, for Hessian-vector products"
        )


def _checked_edges(edges: ArrayLike, tokens: int) -> Integers:
    array = np.array(edges)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"edges must be an integer array [variables, 2] of heads and modifiers, not {array.shape}")
    array = array.astype(np.int64)
    bad = (array < [0, 1]).any(axis=1) | (array > tokens).any(axis=1) | (array[:, 0] == array[:, 1])
    if bad.any():
        head, modifier = array[bad][0].tolist()
        raise ValueError(
            f"edge {head} to {modifier} does not fit {tokens} tokens: heads are 0 (the root) to {tokens}, modifiers 1 "
            f"to {tokens}, and no token is its own head"
        )
    if len(np.unique(array, axis=0)) < len(array):
        values, counts = np.unique(array, axis=0, return_counts=True)
        raise ValueError(f"edge {values[counts > 1][0].tolist()} is listed twice; list it once")
    return array


def matrix_starts(lengths: Integers) -> Integers:
    """Where the matrices of sentences begin, one after another."""
    return starts_of((lengths + 1) ** 2)


def _in_chunks(run: Callable[[tuple[int, int]], object], examples: int) -> None:
    """Calls ``run((chunk, chunks))`` for every chunk of a batch, each in a thread."""
    chunks = max(1, min(examples // LEAST_CHUNK, available_threads()))
    in_threads(chunks, lambda chunk: run((chunk, chunks)))
