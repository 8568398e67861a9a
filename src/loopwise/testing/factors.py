"""Does a structured factor keep what every factor promises? It is compared with its dense twin, a plain table.

In: a structured factor over few variables. Out: nothing, or an AssertionError that says which promise was broken.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.compiled import TorchMessages, kinds_of
from loopwise.inference.messages.structured import LARGEST_TABLE, dense_table
from loopwise.inference.normalise import log_sum
from loopwise.notices import ImpossibleError

EXAMPLES = 3
DRAWS = 4000
PEAK = 1e4  # nats: what scores of order 1 are at temperature 1e-4


def check_factor(
    factor: StructuredFactor,
    *,
    potentials: Tensor | None = None,
    table: Tensor | None = None,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> None:
    """Puts a factor through what every structured factor promises, against its dense twin.

    Log-partition, messages and marginals, their gradients, hard evidence, messages of 1e4 nats, batches of any shape,
    messages that do not depend on their own variable, ImpossibleError; its compiled messages and their adjoint, the
    best assignment and samples where the factor has them. ``table``: log values of the factor ``cardinalities``, if not
    those of its own :meth:`score`.
    float64; at most 65,536 cells."""
    if math.prod(factor.cardinalities) > LARGEST_TABLE:
        raise ValueError(f"a dense twin of {factor.cardinalities} is too large: check a factor over fewer variables")
    generator = torch.Generator().manual_seed(seed)
    found = dense_table(factor, potentials).detach()
    twin = _Twin(factor, found if table is None else table.double().reshape(-1))
    _same("the value at each assignment", found, twin.table, tolerance)
    incoming = torch.randn(EXAMPLES, factor.slots, generator=generator, dtype=torch.float64)
    _check_values(factor, twin, incoming, potentials, tolerance, "")
    hard = _with_evidence(factor, twin, incoming, generator)
    _check_values(factor, twin, hard, potentials, tolerance, " under hard evidence")
    _check_values(factor, twin, PEAK * incoming, potentials, 100 * tolerance, " at 1e4 nats")
    _check_own_variable(factor, incoming, potentials, tolerance)
    _check_batch(factor, incoming, potentials, tolerance)
    _check_gradients(factor, twin, incoming, potentials, tolerance, generator)
    for given in (incoming, hard, 1e2 * incoming, 1e3 * incoming):
        _check_compiled(factor, given, potentials, tolerance, generator)
    _check_impossible(factor, twin, potentials)
    _check_argmax(factor, twin, incoming, potentials, tolerance)
    _check_samples(factor, twin, incoming[0], potentials, seed)


class _Twin:
    """The factor as a table ``[cells]``."""

    def __init__(self, factor: StructuredFactor, table: Tensor) -> None:
        self.factor, self.table = factor, table
        self.values = torch.tensor(np.indices(factor.cardinalities).reshape(factor.arity, -1).T.copy())  # [cells, vars]
        self.slots = self.values + torch.tensor(factor.slot_start[:-1])

    def scores(self, incoming: Tensor, without: int | None = None) -> Tensor:
        """Log weight of every assignment, ``[*batch, cells]``."""
        total = self.table.expand(*incoming.shape[:-1], -1)
        for variable in range(self.factor.arity):
            if variable != without:
                total = total + incoming[..., self.slots[:, variable]]
        return total

    def log_partition(self, incoming: Tensor) -> Tensor:
        return log_sum(self.scores(incoming), [-1])

    def messages(self, incoming: Tensor) -> Tensor:
        values = []
        for variable, size in enumerate(self.factor.cardinalities):
            scores = self.scores(incoming, variable)
            each = [log_sum(scores[..., self.values[:, variable] == value], [-1]) for value in range(size)]
            values.append(torch.stack(each, -1))
        return self.factor.normalised(torch.cat(values, -1))

    def marginals(self, incoming: Tensor) -> Tensor:
        return torch.exp(self.factor.normalised(self.messages(incoming) + incoming))


def _same(what: str, mine: Tensor, theirs: Tensor, tolerance: float) -> None:
    if mine.shape != theirs.shape:
        raise AssertionError(f"{what}: shape {tuple(mine.shape)} instead of {tuple(theirs.shape)}")
    if not bool((torch.isinf(mine) == torch.isinf(theirs)).all()):
        raise AssertionError(f"{what}: infinite where the table is finite, or the reverse")
    finite = torch.isfinite(theirs)
    if not bool(((mine == theirs) | finite).all()):
        raise AssertionError(f"{what}: an infinity of the wrong sign")
    gap = (mine - theirs)[finite].abs()
    worst = float(gap.max()) if gap.numel() else 0.0
    if not worst <= tolerance:
        raise AssertionError(f"{what}: differs from the table by {worst:.2g} (tolerance {tolerance:.2g})")


def _check_values(
    factor: StructuredFactor, twin: _Twin, incoming: Tensor, potentials: Tensor | None, tolerance: float, where: str
) -> None:
    _same(f"log-partition{where}", factor.log_partition(incoming, potentials), twin.log_partition(incoming), tolerance)
    messages = factor.messages(incoming, potentials)
    _same(f"messages{where}", messages, twin.messages(incoming), tolerance)
    _same(f"marginals{where}", factor.marginals(incoming, potentials), twin.marginals(incoming), tolerance)


def _with_evidence(factor: StructuredFactor, twin: _Twin, incoming: Tensor, generator: torch.Generator) -> Tensor:
    """Every third variable, from another one in each example, held at its value in a possible assignment."""
    possible = twin.values[~torch.isneginf(twin.table)]
    held = incoming.clone()
    for example in range(len(incoming)):
        chosen = possible[int(torch.randint(len(possible), (), generator=generator))]
        for variable in range(example % 3, factor.arity, 3):
            first, end = int(factor.slot_start[variable]), int(factor.slot_start[variable + 1])
            keep = first + int(chosen[variable])
            value = held[example, keep].clone()
            held[example, first:end] = -torch.inf
            held[example, keep] = value
    return held


def _check_own_variable(
    factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None, tolerance: float
) -> None:
    before = factor.messages(incoming, potentials)
    for variable in range(factor.arity):
        place = slice(int(factor.slot_start[variable]), int(factor.slot_start[variable + 1]))
        moved = incoming.clone()
        moved[:, place] = moved[:, place].flip(-1) + 1.0
        after = factor.messages(moved, potentials)[:, place]
        _same(f"the message to variable {variable} after its own changed", after, before[:, place], tolerance)


def _check_batch(factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None, tolerance: float) -> None:
    together = torch.stack([incoming, incoming.flip(0)])  # [2, examples, slots]
    _same(
        "messages of a batch",
        factor.messages(together, potentials)[1],
        torch.stack([factor.messages(row, potentials) for row in incoming.flip(0)]),
        tolerance,
    )
    log_partition = factor.log_partition(together, potentials)
    if log_partition.shape != together.shape[:-1]:
        raise AssertionError(f"log-partition of a batch {tuple(together.shape[:-1])} has shape {log_partition.shape}")


def _check_gradients(
    factor: StructuredFactor,
    twin: _Twin,
    incoming: Tensor,
    potentials: Tensor | None,
    tolerance: float,
    generator: torch.Generator,
) -> None:
    weights = torch.randn(2, *incoming.shape, generator=generator, dtype=torch.float64)
    for name in ("log_partition", "messages", "marginals"):
        for where, start in (("", incoming), (" at 1e2 nats", 100 * incoming)):
            mine, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
            values, expected = getattr(factor, name)(mine, potentials), getattr(twin, name)(theirs)
            weight = weights[0] if name != "log_partition" else weights[0, :, 0]
            finite = torch.isfinite(expected)
            found = _gradient(torch.where(finite, values * weight, 0.0).sum(), mine)
            wanted = _gradient(torch.where(finite, expected * weight, 0.0).sum(), theirs)
            _same(f"gradient of {name}{where}", found, wanted, 100 * tolerance)


def _check_compiled(
    factor: StructuredFactor,
    incoming: Tensor,
    potentials: Tensor | None,
    tolerance: float,
    generator: torch.Generator,
) -> None:
    """Two such factors side by side, the first and the last of the examples: messages and adjoints of the torch
    methods."""
    kind = kinds_of([factor])[0][0]
    if kind is TorchMessages:
        return
    slots, rows, between = factor.slots, np.array([0, len(incoming) - 1]), 1
    numbers = None if potentials is None else torch.stack([potentials, potentials]).detach().double()
    size = 0 if numbers is None else numbers[0].numel()
    own = np.zeros((1, 0)) if numbers is None else numbers.reshape(1, -1).numpy()
    program = kind([factor, factor], np.array([0, slots]), np.array([0, size]))
    given = torch.cat([incoming, incoming.flip(0)], -1)
    sent, possible = np.zeros(given.shape), np.ones((len(given), 2), dtype=np.bool_)
    kept = program.send(rows, given.numpy(), own, sent, possible)
    if not possible.all():
        raise AssertionError("compiled messages: possible assignments are called impossible")
    sources = [given[rows].requires_grad_(), *(() if numbers is None else (numbers.requires_grad_(),))]
    halves = zip(sources[0].split(slots, -1), (None, None) if numbers is None else sources[1], strict=True)
    expected = torch.cat([factor.messages(half, mine) for half, mine in halves], -1)
    _same("compiled messages", torch.from_numpy(sent[rows]), expected.detach(), tolerance)
    seeds = torch.randn(given.shape, generator=generator, dtype=torch.float64)
    seeds[rows] = torch.where(torch.isneginf(expected.detach()), 0.0, seeds[rows])
    loss = torch.where(torch.isneginf(expected), 0.0, expected * seeds[rows]).sum()
    back, of_own = np.zeros(given.shape), np.zeros(own.shape)
    program.pull_back(rows, given.numpy(), own, kept, seeds.numpy(), back, of_own)
    found = (torch.from_numpy(back[rows]), torch.from_numpy(of_own))
    for mine, source in zip(found, sources, strict=False):
        wanted = _gradient(loss, source)
        _same("adjoint of compiled messages", mine, wanted.reshape(mine.shape), 100 * tolerance)
    if bool((sent[between] != 0).any()) or bool((back[between] != 0).any()):
        raise AssertionError("compiled messages: an example was written that was not asked for")


def _gradient(loss: Tensor, given: Tensor) -> Tensor:
    """Zeros where the loss is a constant, as of the messages to a single variable."""
    if not loss.requires_grad:
        return torch.zeros_like(given)
    (found,) = torch.autograd.grad(loss, given, allow_unused=True, retain_graph=True)
    return torch.zeros_like(given) if found is None else found


def _check_impossible(factor: StructuredFactor, twin: _Twin, potentials: Tensor | None) -> None:
    forbidden = torch.isneginf(twin.table).nonzero()
    if not len(forbidden):
        return
    held = torch.full((factor.slots,), -torch.inf, dtype=torch.float64)
    held[twin.slots[int(forbidden[0, 0])]] = 0.0
    if not bool(torch.isneginf(factor.log_partition(held, potentials))):
        raise AssertionError("log-partition is not -inf where the factor forbids the only assignment that is left")
    try:
        factor.messages(held, potentials)
    except ImpossibleError:
        return
    raise AssertionError("messages raise no ImpossibleError where no assignment is left")


def _check_argmax(
    factor: StructuredFactor, twin: _Twin, incoming: Tensor, potentials: Tensor | None, tolerance: float
) -> None:
    try:
        best = factor.argmax(incoming, potentials)
    except NotImplementedError:
        return
    places = best + torch.tensor(factor.slot_start[:-1])
    sizes = np.cumprod([1, *factor.cardinalities[:0:-1]])[::-1].copy()
    score = twin.table[(best * torch.tensor(sizes)).sum(-1)] + incoming.gather(-1, places).sum(-1)
    _same("the score of the best assignment", score, twin.scores(incoming).amax(-1), tolerance)


def _check_samples(
    factor: StructuredFactor, twin: _Twin, incoming: Tensor, potentials: Tensor | None, seed: int
) -> None:
    try:
        drawn = factor.sample(incoming, potentials, count=DRAWS, generator=np.random.default_rng(seed))
    except NotImplementedError:
        return
    sizes = np.cumprod([1, *factor.cardinalities[:0:-1]])[::-1].copy()
    cells = torch.bincount((drawn * torch.tensor(sizes)).sum(-1), minlength=len(twin.table)) / DRAWS
    expected = twin.scores(incoming).softmax(-1)
    error = 5 * (expected * (1 - expected) / DRAWS).sqrt() + 1 / DRAWS
    if bool((((cells - expected).abs() > error) & (expected > 0)).any()) or bool((cells[expected == 0] > 0).any()):
        raise AssertionError("samples do not have the frequencies of the table")
