r"""Binary variables under parity checks, and nothing else: message passing in lanes, for codes.

In: the checks, log-odds of variables, syndromes, numbers of message passing. Out: log-odds after sweeps, with a
gradient if one is wanted, or decisions. Stage: inference. ``lw.BP`` on a graph of :class:`~loopwise.Parity` factors
computes the same log-odds; this takes a batch of shots 32 at a time (few shots, or those of a large code, 8 at a
time), in one pass over the checks a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.arithmetic import FEW_LANES, LANES, U, lane_tag
from loopwise.compiled.denormals import tiny_as_zero
from loopwise.compiled.threads import in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of

Floats = NDArray[Any]  # float32 or float64
Bits = NDArray[np.uint8]

FEW_SHOTS = 2 * FEW_LANES  # so many take two short rows of lanes at most, which cost less than a long one that is empty
CACHE = 2 << 20  # bytes of messages: where those of long rows are more, short rows are as fast and fewer lanes idle
CERTAIN = 50.0  # log-odds in place of infinite ones: of a flip with a probability of 2e-22


@dataclass(frozen=True, eq=False)
class ParityChecks:
    """Checks as lists of variables: the edges of check c are ``start[c]`` to ``start[c + 1]``.

    >>> checks = ParityChecks(4, np.array([0, 3, 5]), np.array([0, 1, 2, 2, 3]))
    >>> checks.count, checks.edges, checks.degrees.tolist()
    (2, 5, [3, 2])
    >>> checks.syndromes(np.array([[1, 0, 0, 1]], dtype=np.uint8)).tolist()
    [[1, 1]]
    """

    variables: int
    start: Integers
    variable: Integers

    @property
    def count(self) -> int:
        return len(self.start) - 1

    @property
    def edges(self) -> int:
        return len(self.variable)

    @cached_property
    def degrees(self) -> Integers:
        """How many variables each check has."""
        return np.diff(self.start)

    @cached_property
    def edge_check(self) -> Integers:
        """The check of each edge."""
        return np.repeat(np.arange(self.count), self.degrees)

    @cached_property
    def matrix(self) -> Any:
        """The check matrix, SciPy's CSR."""
        from scipy.sparse import csr_matrix

        ones = np.ones(self.edges, dtype=np.int32)
        return csr_matrix((ones, self.variable, self.start), shape=(self.count, self.variables))

    def syndromes(self, errors: Bits) -> Bits:
        """The parities of rows of bits, ``[shots, checks]``."""
        return np.asarray((self.matrix @ errors.T.astype(np.int32)).T % 2, dtype=np.uint8)

    def ordered(self, order: Integers) -> tuple[ParityChecks, Integers]:
        """The same checks one after another in another order, and where each of their edges was.

        >>> checks = ParityChecks(4, np.array([0, 3, 5]), np.array([0, 1, 2, 2, 3]))
        >>> other, edges = checks.ordered(np.array([1, 0]))
        >>> other.start.tolist(), other.variable.tolist(), edges.tolist()
        ([0, 2, 5], [2, 3, 0, 1, 2], [3, 4, 0, 1, 2])
        """
        edges = np.concatenate([np.arange(self.start[check], self.start[check + 1]) for check in order])
        start = starts_of(self.degrees[order])
        return ParityChecks(self.variables, start, self.variable[edges]), edges

    @cached_property
    def views(self) -> Any:
        """The same for kernels."""
        from loopwise.inference.families.kernels.parity_lanes import Checks

        return Checks(
            self.start.astype(np.uintp), self.variable.astype(np.uintp), np.array([self.variables], dtype=np.uintp)
        )


class Passing(NamedTuple):
    """How messages pass: numbers for all sweeps (one row) or for each, and what checks compute."""

    weights: Tensor  # [rows, edges]
    offsets: Tensor  # [rows, edges], which the min-sum subtracts
    memory: Tensor  # [rows, variables]; no rows: nothing is remembered
    min_sum: bool = False
    layered: bool = False  # check by check, each hearing of the last; else all at once

    def check_sweeps(self, sweeps: int) -> None:
        """Raises where numbers differ from sweep to sweep and are too few."""
        for name in ("weights", "offsets", "memory"):
            rows = len(getattr(self, name))
            if 1 < rows < sweeps:
                raise ValueError(f"{name} are given for {rows} sweeps, fewer than {sweeps}; give a row for each sweep")

    def first_row(self) -> Passing:
        """The numbers of the first sweep, for all sweeps."""
        return self._replace(weights=self.weights[:1], offsets=self.offsets[:1], memory=self.memory[:1])

    def rules(self, dtype: torch.dtype) -> Any:
        from loopwise.inference.families.kernels.parity_lanes import LaneRules

        return LaneRules(*(_array(values.detach(), dtype) for values in self[:3]))

    @property
    def tag(self) -> tuple[int, ...]:
        from loopwise.inference.families.kernels.parity_lanes import MIN_SUM, SUM_PRODUCT

        return MIN_SUM if self.min_sum else SUM_PRODUCT


class Decoded(NamedTuple):
    """What came of shots."""

    hard: Bits  # [shots, variables]
    soft: Floats  # log-odds of 0 against 1, [shots, variables]; no rows unless asked for
    sweeps: NDArray[np.int32]  # [shots]
    explained: NDArray[np.bool_]  # [shots] whether the decisions have the syndrome


class LaneRoom:
    """Memory that calls of :func:`decode` share, one after another: to get it from the system anew takes as long as ten
    sweeps of a large code, and legs of a relay are many."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, Any], tuple[Any, ...]] = {}

    def states(self, thread: int, checks: ParityChecks, dtype: Any, blocks: int, lanes: int, remembers: bool) -> Any:
        """Room for so many blocks of lanes, whatever it holds."""
        from loopwise.inference.families.kernels.parity_lanes import State

        variables = blocks * lanes * checks.variables
        biased = variables if remembers else 0
        sizes = (blocks * lanes * checks.edges, variables, variables, biased, blocks * checks.count)
        held = self._held.get((thread, dtype))
        if held is None or any(len(array) < size for array, size in zip(held, sizes, strict=True)):
            held = (*(np.zeros(size, dtype) for size in sizes[:4]), np.zeros(sizes[4], np.uint32))
            self._held[thread, dtype] = held
        m, belief, prior, bias, odd = held
        return State(m, belief, prior, bias, odd, U(0), U(0), U(0))


def decode(
    checks: ParityChecks,
    passing: Passing,
    prior: Floats,
    syndromes: Bits,
    sweeps: int,
    *,
    start: Floats | None = None,
    stops: bool = True,
    soft: bool = False,
    threads: int = 1,
    room: LaneRoom | None = None,
) -> Decoded:
    """Decisions of at most ``sweeps`` sweeps, fewer where they explain the syndrome sooner.

    Parameters
    ----------
    prior: log-odds of 0 against 1, ``[variables]`` or ``[shots, variables]``, float32 or float64, of which all is.
    start: beliefs that variables remember in the first sweep, ``[shots, variables]``.
    stops: False makes all sweeps.
    soft: whether to give log-odds, too.
    room: memory that it shares with other calls, by default its own.

    >>> checks = ParityChecks(3, np.array([0, 2, 4]), np.array([0, 1, 1, 2]))
    >>> plain = Passing(torch.ones(1, 4), torch.zeros(1, 4), torch.zeros(0, 3))
    >>> found = decode(checks, plain, np.full(3, 2.0), np.array([[1, 0]], dtype=np.uint8), 10)
    >>> found.hard.tolist(), found.sweeps.tolist(), found.explained.tolist()
    ([[1, 0, 0]], [1], [True])
    """
    from loopwise.inference.families.kernels.parity_decode import Found, ShotArrays, decode_in_turn, decode_shots

    passing.check_sweeps(sweeps)
    dtype, count = prior.dtype, len(syndromes)
    own = np.atleast_2d(np.ascontiguousarray(prior))
    begun = np.zeros((0, checks.variables), dtype) if start is None else np.ascontiguousarray(start, dtype)
    bits = np.ascontiguousarray(syndromes, dtype=np.uint8)
    rules = passing.rules(torch.from_numpy(own[:0]).dtype)
    found = Decoded(
        np.zeros((count, checks.variables), np.uint8),
        np.zeros((count if soft else 0, checks.variables), dtype),
        np.zeros(count, np.int32),
        np.zeros(count, np.bool_),
    )
    parts = max(1, min(threads, count // (4 * LANES)))
    cuts = [count * part // parts for part in range(parts + 1)]
    lanes = _lanes(checks, count, dtype.itemsize)
    levels = _levels(sweeps, stops and count > lanes)
    in_turn = stops and all(len(values) <= 1 for values in passing[:3])
    memory = LaneRoom() if room is None else room

    def one(part: int) -> None:
        mine = slice(cuts[part], cuts[part + 1])
        shots = ShotArrays(own if len(own) == 1 else own[mine], begun[mine] if len(begun) else begun, bits[mine])
        out = Found(
            found.hard[mine], found.soft[mine] if soft else found.soft, found.sweeps[mine], found.explained[mine]
        )
        blocks = 1 if in_turn else 2 * (len(levels) - 1)
        states = memory.states(part, checks, dtype, blocks, lanes, len(passing.memory) > 0)
        given, variant = (checks.views, rules, states, shots, out), (passing.layered, lane_tag(lanes), passing.tag)
        if in_turn:
            decode_in_turn(*given, sweeps, *variant)
        else:
            decode_shots(*given, levels, stops, *variant)

    if count:
        in_threads(parts, one)
    return found


def _lanes(checks: ParityChecks, shots: int, itemsize: int) -> int:
    """How many shots stand side by side; each one's numbers are the same whichever."""
    return FEW_LANES if shots <= FEW_SHOTS or LANES * checks.edges * itemsize > CACHE else LANES


def _levels(sweeps: int, gathers: bool) -> Integers:
    """Sweeps after which shots that are left are gathered: 3, 6, 12, ..."""
    found = [0]
    while gathers and 3 * 2 ** (len(found) - 1) < sweeps:
        found.append(3 * 2 ** (len(found) - 1))
    return np.array([*found, sweeps])


def trace(
    checks: ParityChecks,
    passing: Passing,
    prior: Tensor,
    syndromes: Bits,
    kept: Integers,
    start: Tensor | None = None,
) -> Tensor:
    """Log-odds of 0 against 1 after the sweeps ``kept`` (rising, from 1), ``[kept, shots, variables]``, no sweep left
    out; differentiable by weights, offsets, memory, prior and start. ``prior`` has the precision that all is done in.

    >>> checks = ParityChecks(2, np.array([0, 2]), np.array([0, 1]))
    >>> weight = torch.tensor([[1.0, 0.5]], requires_grad=True)
    >>> passing = Passing(weight, torch.zeros(1, 2), torch.zeros(0, 2))
    >>> found = trace(checks, passing, torch.tensor([1.0, 3.0]), np.array([[0]], dtype=np.uint8), np.array([1]))
    >>> found.tolist()
    [[[4.0, 3.5]]]
    >>> found.sum().backward()
    >>> weight.grad.tolist()
    [[3.0, 1.0]]
    """
    passing.check_sweeps(int(kept[-1]))
    own = prior if prior.ndim == 2 else prior[None]
    begun = own.new_zeros(0, checks.variables) if start is None else start
    call = _ParityCall(
        checks, passing, np.ascontiguousarray(syndromes, dtype=np.uint8), np.asarray(kept, dtype=np.int64)
    )
    found: Tensor = _Trace.apply(call, *passing[:3], own, begun)  # type: ignore[no-untyped-call]
    return found


class _ParityCall(NamedTuple):
    checks: ParityChecks
    passing: Passing
    syndromes: Bits
    kept: Integers


class _Trace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _ParityCall, *tensors: Tensor) -> Tensor:
        from loopwise.inference.families.kernels.parity_adjoint import trace_shots

        ctx.call = call
        ctx.save_for_backward(*tensors)
        dtype = tensors[3].dtype
        shape = (len(call.kept), call.checks.variables, len(call.syndromes))
        found = np.empty(shape, dtype=_array(tensors[3][:0], dtype).dtype)
        if len(call.syndromes):
            trace_shots(call.checks.views, *_given(call, tensors), call.kept, found.ravel(), *_variant(call.passing))
        return torch.from_numpy(found).transpose(1, 2)  # shots stay innermost in memory

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_trace: Tensor) -> Any:
        from loopwise.inference.families.kernels.parity_adjoint import ParityAdjoints, pull_back

        call, tensors = ctx.call, ctx.saved_tensors
        found = [np.zeros(tuple(tensor.shape)) for tensor in tensors]
        if len(call.syndromes):
            adjoints = _array(of_trace.transpose(1, 2), tensors[3].dtype).ravel()
            given = _given(call, tensors)
            out = ParityAdjoints(*found)
            with tiny_as_zero():  # adjoints of saturated beliefs
                pull_back(call.checks.views, *given, call.kept, adjoints, out, *_variant(call.passing))
        return None, *(torch.from_numpy(one).to(tensor) for one, tensor in zip(found, tensors, strict=True))


def _given(call: _ParityCall, tensors: tuple[Tensor, ...]) -> tuple[Any, Any]:
    from loopwise.inference.families.kernels.parity_decode import ShotArrays

    dtype = tensors[3].dtype
    passing = call.passing._replace(weights=tensors[0], offsets=tensors[1], memory=tensors[2])
    own, begun = (_array(tensor.detach(), dtype) for tensor in tensors[3:])
    return passing.rules(dtype), ShotArrays(own, begun, call.syndromes)


def _variant(passing: Passing) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    return passing.layered, lane_tag(LANES), passing.tag


def _array(values: Tensor, dtype: torch.dtype) -> Floats:
    found: Floats = values.detach().to(device="cpu", dtype=dtype).contiguous().numpy()
    return found
