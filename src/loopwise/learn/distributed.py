"""Several processes that train one system: each computes its share of every batch, all take the same step.

In: processes that ``torchrun`` started, or a process group of ``torch.distributed``. Out: :class:`Team`, which training
asks for its share of a batch, for a loss whose derivatives are those of the whole batch, and for what the first process
alone does: development data, files, callbacks. Stage: learning. A process alone is :data:`ALONE`.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from loopwise.compiled.cache import digest_of_sources
from loopwise.graph.factor_graph import Integers

T = TypeVar("T")
Gradient = Sequence[Tensor | None]

_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun tells a process
_APART: ContextVar[bool] = ContextVar("loopwise trains apart", default=False)


class RankError(RuntimeError):
    """Another process of the training failed, is gone, or was given something else."""


class Team:
    """The processes of a training as one of them, number ``rank`` of ``size``, sees them.

    All of them must make the same calls in the same order: whoever waits for one that is gone gets a
    :class:`RankError`, and so do the others when one fails.

    >>> team = Team()
    >>> team.share(np.array([4, 2, 7])).tolist(), team.from_first(lambda: "read once")
    ([4, 2, 7], 'read once')
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    @property
    def first(self) -> bool:
        """Whether this is the one process that writes files and talks to people."""
        return self.rank == 0

    # --- Who does what -----------------------------------------------------------------------------------------------

    def share(self, rows: Integers, sizes: Integers | None = None) -> Integers:
        """The part of ``rows`` that is this process's, in order; parts are about equal in number, or in ``sizes``."""
        return self.shares(rows, sizes)[self.rank]

    def shares(self, rows: Integers, sizes: Integers | None = None) -> list[Integers]:
        """The parts of ``rows`` of all processes, by rank."""
        ends = np.cumsum(np.ones(len(rows)) if sizes is None else sizes[rows])
        middles = ends - (ends[0] / 2 if len(ends) else 0.0)
        cuts = np.searchsorted(middles, (ends[-1] if len(ends) else 0.0) * np.arange(self.size + 1) / self.size)
        return [rows[first:last] for first, last in pairwise(cuts)]

    def from_first(self, work: Callable[[], T]) -> T:
        """What ``work`` gives the first process, which alone does it; if it fails there, all stop."""
        if self.alone:
            return work()
        told: list[Any] = [None, None]
        failure: Exception | None = None
        if self.first:
            try:
                told[0] = work()
            except Exception as problem:
                failure, told[1] = problem, _said(problem)
        with self._reaching_others():
            dist.broadcast_object_list(told, src=0)
        self._stop_if_any([told[1]], failure)
        result: T = told[0]
        return result

    def gathered(self, mine: T) -> list[T]:
        """What each process has, by rank."""
        found: list[Any] = [None] * self.size
        if self.alone:
            return [mine]
        with self._reaching_others():
            dist.all_gather_object(found, mine)
        return found

    def check_same(self, described: Mapping[str, str]) -> None:
        """Refuses to train where processes were given different things; ``described``: what each thing is, by name."""
        if self.alone:
            return
        digests = {name: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for name, text in described.items()}
        everybody = self.gathered(digests)
        for rank, theirs in enumerate(everybody):
            for name in {**everybody[0], **theirs}:
                if theirs.get(name) != everybody[0].get(name):
                    raise RankError(
                        f"the processes do not train the same: ranks 0 and {rank} differ in the {name}; give each the "
                        "same program, options and data (each takes its share of every batch by itself), or train "
                        "within lw.learn.distributed.apart() if each is to have a training of its own"
                    )

    def level(self, module: nn.Module) -> None:
        """Gives all processes the weights and buffers of the first."""
        if self.alone:
            return
        for tensor in module.state_dict().values():
            if tensor.numel():
                copy = tensor.detach().clone(memory_format=torch.contiguous_format)
                with self._reaching_others():
                    dist.broadcast(copy.view(-1).view(torch.uint8), src=0)
                tensor.copy_(copy)

    # --- Losses ------------------------------------------------------------------------------------------------------

    def loss(self, rows: Callable[[], Tensor], value: Callable[[Tensor], Tensor], params: Sequence[Tensor]) -> Tensor:
        """``value`` of the ``rows`` of all processes, ``[each one's, columns]``, with the derivatives by ``params``,
        first and second (by :func:`loopwise.hvp`), that one process with all rows would find."""
        shared = _SharedLoss(self, rows, value, params)
        if not (torch.is_grad_enabled() and shared.differentiable):
            return shared.value.detach()
        result: Tensor = _Loss.apply((shared,), *params)  # type: ignore[no-untyped-call]
        return result

    def joined(self, mine: Tensor, counts: Sequence[int]) -> Tensor:
        """Rows of all processes, ``counts`` of each."""
        padded = mine.new_zeros(max(counts), *mine.shape[1:])
        padded[: len(mine)] = mine
        pieces = [torch.empty_like(padded) for _ in counts]
        with self._reaching_others():
            dist.all_gather(pieces, padded)
        return torch.cat([piece[:count] for piece, count in zip(pieces, counts, strict=True)])

    def total(self, work: Callable[[], Gradient], params: Sequence[Tensor]) -> list[Tensor | None]:
        """The sum over all processes of what ``work`` gives, a gradient by ``params``; None where nobody has one."""
        mine, said, failure = self._tried(work)
        entries = None if mine is None else [_entries(gradient) for gradient in mine]
        everybody = self.gathered((said, entries))
        self._stop_if_any([theirs for theirs, _ in everybody], failure)
        assert mine is not None
        kinds = list(zip(*(theirs for _, theirs in everybody), strict=True))  # of each parameter, by rank
        found: list[Tensor | None] = [None] * len(params)
        dense = [place for place, by_rank in enumerate(kinds) if _DENSE in by_rank]
        for kind in sorted({(str(params[place].dtype), str(params[place].device)) for place in dense}):
            places = [place for place in dense if (str(params[place].dtype), str(params[place].device)) == kind]
            self._add_up(places, mine, params, found)
        for place, by_rank in enumerate(kinds):
            if _DENSE not in by_rank and any(count != _NONE for count in by_rank):
                found[place] = self._listed(mine[place], params[place], [max(count, 0) for count in by_rank])
        return found

    def _add_up(
        self, places: Sequence[int], mine: Gradient, params: Sequence[Tensor], found: list[Tensor | None]
    ) -> None:
        """Sums the dense gradients at ``places`` into ``found``, in one message."""
        pieces = []
        for place in places:
            gradient = mine[place]
            whole = torch.zeros_like(params[place]) if gradient is None else gradient.detach()
            pieces.append((whole.to_dense() if whole.is_sparse else whole).reshape(-1))
        flat = torch.cat(pieces)
        with self._reaching_others():
            dist.all_reduce(flat)
        for place, piece in zip(places, torch.split(flat, [len(piece) for piece in pieces]), strict=True):
            found[place] = piece.reshape(params[place].shape)

    def _listed(self, mine: Tensor | None, param: Tensor, counts: Sequence[int]) -> Tensor:
        """Sparse gradients one after another, which is their sum."""
        rows = param.new_zeros(0, dtype=torch.int64) if mine is None else mine.detach()._indices()[0]
        values = param.new_zeros(0, *param.shape[1:]) if mine is None else mine.detach()._values()
        joined = self.joined(rows, counts), self.joined(values, counts)
        return torch.sparse_coo_tensor(joined[0][None], joined[1], param.shape, check_invariants=False)

    # --- Failures ----------------------------------------------------------------------------------------------------

    def _tried(self, work: Callable[[], T]) -> tuple[T | None, str | None, Exception | None]:
        """A result, or what went wrong: the others wait, and must be told."""
        try:
            return work(), None, None
        except Exception as problem:
            return None, _said(problem), problem

    def _stop_if_any(self, said: Sequence[str | None], failure: Exception | None) -> None:
        if failure is not None:
            raise failure
        for rank, problem in enumerate(said):
            if problem is not None:
                raise RankError(f"rank {rank} of {self.size} stopped the training: {problem}")

    @contextmanager
    def _reaching_others(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as problem:
            if "No backend type" in str(problem):
                raise RankError(
                    f"the process group cannot send what is on this device ({problem}); make it by "
                    "torch.distributed.init_process_group('cpu:gloo,cuda:nccl'), or leave that to lw.fit"
                ) from problem
            raise RankError(
                f"rank {self.rank} of {self.size} cannot reach the others any more, since one of them was killed or "
                "hangs; start all of them again: with a checkpoint the training goes on after the last whole epoch"
            ) from problem


ALONE = Team()


def team() -> Team:
    """The processes that train together with this one: those of ``torch.distributed``, which is started here where
    ``torchrun`` started the process and nobody else did; else :data:`ALONE`."""
    if _APART.get() or not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if not all(name in os.environ for name in _LAUNCHED) or multiprocessing.parent_process() is not None:
            return ALONE
        # Imported later (optimisers do it), this module would take the group as a default and never let go of it.
        importlib.import_module("torch.distributed.nn")
        dist.init_process_group()
        atexit.register(_leave)
    return Team(dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    """Ends the group's threads: one that still drops a tensor when the interpreter is gone would abort the process."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def apart() -> Iterator[None]:
    """Trainings within are this process's own, whoever else there is: for runs that differ from process to process.

    >>> with apart():
    ...     team() is ALONE
    True
    """
    before = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(before)


def described_code(objects: Iterable[object]) -> dict[str, str]:
    """What tells the code of these objects' classes from other versions of it, by the module that it stands in."""
    modules = sorted({type(thing).__module__ for thing in objects} | {__name__})
    versions = {"version of torch": torch.__version__}
    return versions | {f"source of {name}": digest_of_sources(name) for name in modules}


# What a process has of a gradient: nothing, a dense one, or else so many rows.
_NONE, _DENSE = -1, -2


def _entries(gradient: Tensor | None) -> int:
    if gradient is None:
        return _NONE
    return len(gradient._indices()[0]) if gradient.is_sparse and gradient.sparse_dim() == 1 else _DENSE


def _said(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


class _SharedLoss:
    """A value of rows of which each process has some: value, gradient, and the gradient's derivative along a vector.

    With :math:`L=C(s_1,\\dots,s_n)` of rows :math:`s_r(\\theta)`, whose Jacobian :math:`J_r` only rank r can apply, the
    gradient is :math:`\\sum_r J_r^\\top C_r`, and its derivative along v the sum of that of each term with :math:`C_r`
    held, and of :math:`J_r^\\top\\sum_q C_{rq}J_qv`: the :math:`J_qv` are exchanged in between.
    """

    def __init__(
        self, team: Team, rows: Callable[[], Tensor], value: Callable[[Tensor], Tensor], params: Sequence[Tensor]
    ) -> None:
        self.team, self.params = team, params
        mine, said, failure = team._tried(rows)
        everybody = team.gathered((said, None if mine is None else (len(mine), mine.requires_grad)))
        team._stop_if_any([theirs for theirs, _ in everybody], failure)
        assert mine is not None
        shapes = [theirs for _, theirs in everybody if theirs is not None]
        self.mine, self.counts = mine, [count for count, _ in shapes]
        self.all = team.joined(mine.detach(), self.counts).requires_grad_()
        with torch.enable_grad():
            self.value = value(self.all)
        self.differentiable = self.value.requires_grad and any(wanted for _, wanted in shapes)

    def gradient(self, twice: bool) -> list[Tensor | None]:
        """By the parameters; ``twice``: a derivative of it will be asked for."""
        (self.outer,) = torch.autograd.grad(self.value, self.all, create_graph=twice)
        self.held = self._own(self.outer).detach().clone().requires_grad_(twice)

        def local() -> Gradient:
            self.local = self._by_params(self.mine, self.held, create_graph=twice)
            return self.local

        return self.team.total(local, self.params)

    def derivative(self, vector: Gradient) -> list[Tensor | None]:
        """Of the gradient, along ``vector``."""
        used = [
            (gradient, piece)
            for gradient, piece in zip(self.local, vector, strict=True)
            if gradient is not None and piece is not None and gradient.requires_grad
        ]
        mine = torch.zeros_like(self.held)
        terms: list[Gradient] = []
        if used:
            found = torch.autograd.grad(
                [gradient for gradient, _ in used],
                [self.held, *self.params],
                [piece.to_dense() if piece.is_sparse else piece for _, piece in used],
                allow_unused=True,
                retain_graph=True,
            )
            mine = mine if found[0] is None else found[0]
            terms.append(found[1:])
        moved = self.team.joined(mine.detach(), self.counts)
        if self.outer.requires_grad:
            (bent,) = torch.autograd.grad(self.outer, self.all, moved, allow_unused=True, retain_graph=True)
            if bent is not None:
                terms.append(self._by_params(self.mine, self._own(bent), retain_graph=True))
        return self.team.total(lambda: _sum(terms, len(self.params)), self.params)

    def _own(self, rows: Tensor) -> Tensor:
        start = sum(self.counts[: self.team.rank])
        return rows[start : start + self.counts[self.team.rank]]

    def _by_params(self, rows: Tensor, seed: Tensor, **options: bool) -> Gradient:
        if not rows.requires_grad:
            return [None] * len(self.params)
        return torch.autograd.grad(rows, self.params, seed, allow_unused=True, **options)


def _sum(terms: Sequence[Gradient], count: int) -> list[Tensor | None]:
    total: list[Tensor | None] = [None] * count
    for term in terms:
        for place, piece in enumerate(term):
            before = total[place]
            total[place] = piece if before is None else before if piece is None else before + piece
    return total


class _Loss(torch.autograd.Function):
    """The value of a shared loss, as a function of the parameters."""

    @staticmethod
    def forward(ctx: Any, held: tuple[_SharedLoss], *params: Tensor) -> Tensor:
        ctx.shared, ctx.params = held[0], params
        return held[0].value.detach().clone()

    @staticmethod
    def backward(ctx: Any, seed: Tensor) -> Any:
        shared = ctx.shared
        if not torch.is_grad_enabled():
            return None, *_times(seed, shared.gradient(twice=False))
        return None, *_times(seed, _Gradient.apply((shared,), *ctx.params))  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """The gradient of a shared loss, as a function of the parameters."""

    @staticmethod
    def forward(ctx: Any, held: tuple[_SharedLoss], *params: Tensor) -> Any:
        ctx.shared = held[0]
        with torch.enable_grad():
            return tuple(held[0].gradient(twice=True))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *vector: Tensor | None) -> Any:
        return None, *ctx.shared.derivative(vector)


def _times(seed: Tensor, gradient: Iterable[Tensor | None]) -> list[Tensor | None]:
    return [None if piece is None else piece * seed for piece in gradient]
