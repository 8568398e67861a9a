"""Inference as one operator of torch: opaque to ``torch.compile``, and open to the transforms of ``torch.func``.

In: a method, a graph, potentials that a transform has wrapped. Out: :class:`Beliefs` of such tensors. Stage: inference.
Kernels need numbers, and a transform (``grad``, ``vmap``, ``jvp``) hands out tensors that have none. Here the whole
call is one function of its potentials, with a derivative, a derivative of that, tangents, and a rule for batches;
within, the engines run as ever. Each part of the beliefs that is read (marginals, a group's factors, log Z) is such a
function of its own: reading three parts runs inference three times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from loopwise.graph.evidence import EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.notices import GradientError

if TYPE_CHECKING:
    from loopwise.inference.base import Inference

F = TypeVar("F", bound=Callable[..., Any])
_Names = tuple[tuple[str, int | None], ...]

transforms: Callable[[], object | None] = torch._C._functorch.peek_interpreter_stack  # None outside of any


def opaque(function: F) -> F:
    """``function``, into which ``torch.compile`` does not look, nor into what it calls: one break of the graph.

    A note on its code, not a wrapper as ``torch.compiler.disable`` makes it: a call costs what it did.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = "inference runs in kernels"  # type: ignore[attr-defined]
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def transformed(
    method: Inference, graph: FactorGraph, potentials: object, evidence: EvidenceLike, initial: Tensor | None
) -> Beliefs:
    """Beliefs within a transform of ``torch.func``."""
    given = potentials() if isinstance(potentials, nn.Module) else potentials
    if not isinstance(given, Mapping) or initial is not None:
        what = "initial messages" if initial is not None else f"potentials of class {type(given).__name__}"
        raise ValueError(f"inference within torch.func takes a mapping of group names to tables, but not {what}")
    names, cores, tables = _flat(graph, given)
    observed = None if evidence is None else clamped_values(graph, evidence)
    rank = max([table.ndim - core for table, core in zip(tables, cores, strict=True)], default=0)
    rank = max(rank, 0 if observed is None else observed.ndim - 1)
    call = _OperatorCall(method, graph, observed, names, cores, rank)

    def read(part: Callable[[Beliefs], Tensor]) -> Tensor:
        found: Tensor = _Read.apply(replace(call, part=part), *tables)  # type: ignore[no-untyped-call]
        return found

    states = read(_states)
    return Beliefs(
        graph,
        states,
        lambda name: read(lambda beliefs: beliefs.factor(name)),
        lambda: read(lambda beliefs: beliefs.log_partition),
        lambda: call.seen[-1],
        lambda: read(lambda beliefs: beliefs.messages),
    )


def _flat(graph: FactorGraph, given: Mapping[Any, Any]) -> tuple[_Names, tuple[int, ...], list[Tensor]]:
    """Tables in a row: the name of each (with its number, in a list), its dimensions that are no batch, and it."""
    names: list[tuple[str, int | None]] = []
    cores, tables = [], []
    for name, value in given.items():
        structured = graph.structured_group(name)
        if structured is None:
            table, arity = torch.as_tensor(value), graph.group(name).arity
            names.append((name, None))
            cores.append(arity + 1)
            tables.append(table[None] if table.ndim == arity else table)
            continue
        several = isinstance(value, list | tuple)
        for row, each in enumerate(value if several else [value]):
            shape = structured.factors[row].potentials_shape
            if each is not None and shape is not None:
                names.append((name, row if several else None))
                cores.append(len(shape))
                tables.append(torch.as_tensor(each))
    return tuple(names), tuple(cores), tables


def _states(beliefs: Beliefs) -> Tensor:
    return beliefs.states


@dataclass(frozen=True, eq=False)
class _OperatorCall:
    """Which function of the tables it is. ``rank``: of the batch; ``seen``: the status of each run."""

    method: Inference
    graph: FactorGraph
    evidence: Any
    names: _Names
    cores: tuple[int, ...]
    rank: int
    part: Callable[[Beliefs], Tensor] = _states
    seen: list[Status] = field(default_factory=list)

    def __call__(self, tables: Sequence[Tensor]) -> Tensor:
        given: dict[str, Any] = {}
        for (name, row), table in zip(self.names, tables, strict=True):
            if row is None:
                given[name] = table
            else:
                given.setdefault(name, [None] * len(_group(self.graph, name).factors))[row] = table
        beliefs = self.method(self.graph, given, self.evidence)
        self.seen[:] = [beliefs.status]
        return self.part(beliefs)

    def differentiable(self, tables: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Tables from which a gradient can be taken, and the result."""
        with torch.enable_grad():
            leaves = [table.detach().requires_grad_() for table in tables]
            result = self(leaves)
        if not result.requires_grad:
            raise GradientError(f"{type(self.method).__name__} has no gradient; use lw.BP(), lw.TRW() or lw.Exact()")
        return leaves, result

    def batched(self, size: int, dims: Sequence[int | None], tables: Sequence[Tensor], each: bool) -> list[Tensor]:
        """Tables with a further batch dimension in front of all others; ``each``: those, too, that all share."""
        found = []
        for table, dim, core in zip(tables, dims, self.cores, strict=True):
            if dim is None and not each:
                found.append(table)
                continue
            moved = _in_front(size, dim, table)
            own = moved.shape[1 : moved.ndim - core]
            ones = [1] * (self.rank - len(own))
            found.append(moved.reshape(size, *ones, *own, *moved.shape[moved.ndim - core :]))
        return found

    def wider(self) -> _OperatorCall:
        return replace(self, rank=self.rank + 1)


def _group(graph: FactorGraph, name: str) -> Any:
    return graph.structured_group(name)


def _in_front(size: int, dim: int | None, tensor: Tensor) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _like(found: Sequence[Tensor], size: int, dims: Sequence[int | None], tables: Sequence[Tensor]) -> list[Tensor]:
    """Gradients in the shapes that tables had before :meth:`_OperatorCall.batched`, with the new dimension in front."""
    return [
        piece.reshape(_in_front(size, dim, table).shape) for piece, dim, table in zip(found, dims, tables, strict=True)
    ]


def _zeros_for_none(found: Sequence[Tensor | None], like: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(torch.zeros_like(t) if g is None else g.detach() for g, t in zip(found, like, strict=True))


class _Read(torch.autograd.Function):
    """Arguments: a call, its tables. Result: a part of the beliefs."""

    @staticmethod
    def forward(call: _OperatorCall, *tables: Tensor) -> Tensor:
        with torch.no_grad():
            return call(tables).detach().clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, *tables = inputs
        ctx.save_for_backward(*tables)
        ctx.save_for_forward(*tables)

    @staticmethod
    def backward(ctx: Any, seed: Tensor) -> Any:
        return None, *_PullBack.apply(ctx.call, seed, *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Any:
        moves = _zeros_for_none(tangents, ctx.saved_tensors)
        return _Push.apply(ctx.call, *moves, *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: Any, call: _OperatorCall, *tables: Tensor) -> Any:
        wide = call.batched(info.batch_size, dims[1:], tables, each=False)
        return _Read.apply(call.wider(), *wide), 0  # type: ignore[no-untyped-call]


class _PullBack(torch.autograd.Function):
    """Arguments: a call, an adjoint of its result, its tables. Results: adjoints of these."""

    @staticmethod
    def forward(call: _OperatorCall, seed: Tensor, *tables: Tensor) -> tuple[Tensor, ...]:
        leaves, result = call.differentiable(tables)
        return _zeros_for_none(torch.autograd.grad(result, leaves, seed, allow_unused=True), tables)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *moves: Tensor) -> Any:
        return None, *_Twice.apply(ctx.call, *moves, *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Any:
        """Linear in the adjoint; in the tables, by the symmetry of second derivatives."""
        seed, *tables = ctx.saved_tensors
        moved, *moves = _zeros_for_none(tangents, [seed, *tables])
        straight = _PullBack.apply(ctx.call, moved, *tables)  # type: ignore[no-untyped-call]
        _, *bent = _Twice.apply(ctx.call, *moves, seed, *tables)  # type: ignore[no-untyped-call]
        return tuple(a + b for a, b in zip(straight, bent, strict=True))

    @staticmethod
    def vmap(info: Any, dims: Any, call: _OperatorCall, seed: Tensor, *tables: Tensor) -> Any:
        wide = call.batched(info.batch_size, dims[2:], tables, each=True)
        adjoint = _in_front(info.batch_size, dims[1], seed)
        found = _PullBack.apply(call.wider(), adjoint, *wide)  # type: ignore[no-untyped-call]
        return tuple(_like(found, info.batch_size, dims[2:], tables)), (0,) * len(tables)


class _Twice(torch.autograd.Function):
    """Arguments: a call, tangents of its tables, an adjoint s, the tables. Results: the result's tangent; how the
    adjoints of the tables that belong to s move along the tangents."""

    @staticmethod
    def forward(call: _OperatorCall, *tensors: Tensor) -> tuple[Tensor, ...]:
        count = len(call.names)
        moves, seed, tables = tensors[:count], tensors[count], tensors[count + 1 :]
        leaves, result = call.differentiable(tables)
        with torch.enable_grad():
            adjoint = seed.detach().requires_grad_()
            found = torch.autograd.grad(result, leaves, adjoint, create_graph=True, allow_unused=True)
            used = [(g, v) for g, v in zip(found, moves, strict=True) if g is not None and g.requires_grad]
            inputs = [adjoint, *leaves]
            second: Sequence[Tensor | None] = [None] * len(inputs)
            if used:
                pieces, along = zip(*used, strict=True)
                second = torch.autograd.grad(pieces, inputs, along, allow_unused=True)
        return _zeros_for_none(second, inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> Any:
        raise GradientError("inference within torch.func differentiates twice, not three times")

    @staticmethod
    def vmap(info: Any, dims: Any, call: _OperatorCall, *tensors: Tensor) -> Any:
        count, size = len(call.names), info.batch_size
        tables, places = tensors[count + 1 :], dims[count + 2 :]
        wide = call.batched(size, places, tables, each=True)
        moves = call.batched(size, dims[1 : count + 1], tensors[:count], each=True)
        adjoint = _in_front(size, dims[count + 1], tensors[count])
        first, *rest = _Twice.apply(call.wider(), *moves, adjoint, *wide)  # type: ignore[no-untyped-call]
        return (first, *_like(rest, size, places, tables)), (0,) * (count + 1)


class _Push(torch.autograd.Function):
    """Arguments: a call, tangents of its tables, the tables. Result: the tangent of its result."""

    @staticmethod
    def forward(call: _OperatorCall, *tensors: Tensor) -> Tensor:
        tables = tensors[len(call.names) :]
        with torch.no_grad():
            seed = torch.zeros_like(call(tables))
        return _Twice.forward(call, *tensors[: len(call.names)], seed, *tables)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> Any:
        raise GradientError(
            "inference within torch.func has no gradient of a tangent; take the tangent of a gradient, "
            "torch.func.jvp(torch.func.grad(...))"
        )

    @staticmethod
    def vmap(info: Any, dims: Any, call: _OperatorCall, *tensors: Tensor) -> Any:
        count = len(call.names)
        wide = [
            call.batched(info.batch_size, places, part, each=True)
            for places, part in ((dims[1 : count + 1], tensors[:count]), (dims[count + 1 :], tensors[count:]))
        ]
        return _Push.apply(call.wider(), *wide[0], *wide[1]), 0  # type: ignore[no-untyped-call]
