"""Many states, few and many examples, tables shared or not, arity 2 to 4: ours against plain torch.

    python benchmarks/states.py [--quick]

Ten flooding sweeps on random graphs, one thread, float64, whole calls. Torch contracts one axis after another, in the
better of two formulations for the variables; where examples share a table its step is one matrix product. Beliefs are
compared before anything is timed; times are the fastest of several rounds in which contenders take turns. Cases whose
tables would have more than 2^24 entries together are left out. Last line of output: JSON with `worst_vs_torch` (how
many times faster ours is, the worst case without products of shared tables), `worst_vs_torch_products` (the worst of
those), `dearest_small_batch` (the time of batches of 2 to 7 over that of 8, the worst), and more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.graph import FactorGraph
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from torch_bp import TorchTables

SWEEPS = 10
ENTRIES = 2**24  # of all tables together, at most
USUAL = 2**20  # as far as factors can be that small


@dataclass(frozen=True)
class Case:
    """Random factors of one arity, every variable with as many states."""

    states: int
    arity: int
    batch: int
    own: bool  # every example has tables of its own
    most: int = 400

    @property
    def factors(self) -> int:
        return max(1, min(self.most, USUAL // (self.states**self.arity * (self.batch if self.own else 1))))

    @property
    def entries(self) -> int:
        return self.factors * self.states**self.arity * (self.batch if self.own else 1)

    @property
    def product(self) -> bool:
        """Whether torch's step is a product of a matrix with those of several examples."""
        return self.batch > 1 and not self.own

    def __str__(self) -> str:
        tables = "own   " if self.own else "shared"
        size = f"{self.states:3d} states, arity {self.arity}, batch {self.batch:2d}"
        return f"{size}, {tables} tables, {self.factors:3d} factors"

    def contenders(self) -> dict[str, Callable[[], Tensor]]:
        """Functions that give beliefs ``[batch, variables, states]``."""
        random, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
        variables = max(self.arity, self.factors * self.arity // 3)
        scopes = np.stack([random.permutation(variables)[: self.arity] for _ in range(self.factors)])
        graph = FactorGraph(np.full(variables, self.states), {"table": scopes, "unary": np.arange(variables)[:, None]})
        lead = (self.batch,) if self.own else ()
        shape = (*lead, self.factors, *(self.states,) * self.arity)
        table = torch.randn(shape, generator=generator, dtype=torch.float64)
        unary = torch.randn(self.batch, variables, self.states, generator=generator, dtype=torch.float64)
        solver = BP(iterations=SWEEPS, tolerance=0, engine=Compiled(1))
        flat = table.reshape(-1, self.states**self.arity)
        inner = unary.flatten(0, 1)[..., None] if self.own else unary.permute(1, 2, 0).contiguous()

        def ours() -> Tensor:
            return solver(graph, {"table": table, "unary": unary}).states.reshape(unary.shape)

        def plain(padded: bool) -> Callable[[], Tensor]:
            peer = TorchTables(graph, self.batch, self.own, padded)

            def run() -> Tensor:
                beliefs = peer.run(flat, inner, SWEEPS)
                return beliefs.reshape(unary.shape) if self.own else beliefs.permute(2, 0, 1)

            return run

        return {"ours": ours, "torch padded": plain(True), "torch logs": plain(False)}


Name = TypeVar("Name")


class Row(NamedTuple):
    """What a case took."""

    case: Case
    seconds: float
    ratio: float  # of torch's time to ours


def fastest(contenders: dict[Name, Callable[[], Tensor]], budget: float) -> dict[Name, float]:
    """Fewest seconds of each, all taking turns, in at least three rounds and about ``budget`` seconds."""
    found = {name: float("inf") for name in contenders}
    end, rounds = time.perf_counter() + budget, 0
    while rounds < 3 or (time.perf_counter() < end and rounds < 40):
        for name, run in contenders.items():
            begin = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - begin)
        rounds += 1
    return found


def measure(case: Case, budget: float) -> Row:
    contenders = case.contenders()
    mine = contenders["ours"]()
    for name, run in contenders.items():
        error = float((run() - mine).abs().max())
        if not error <= 1e-9:
            raise SystemExit(f"{case}: {name} differs from ours by {error:.2g}: nothing was timed")
    seconds = fastest(contenders, budget)
    best = min(seconds["torch padded"], seconds["torch logs"])
    row = Row(case, seconds["ours"], best / seconds["ours"])
    print(f"{case}: {1e3 * row.seconds:8.2f} ms, torch {1e3 * best:8.2f}, {row.ratio:6.2f} x", flush=True)
    return row


def small_batches(states: int, own: bool, budget: float) -> float:
    """The time of batches of 2 to 7 over that of 8, the worst."""
    most = Case(states, 2, 8, own).factors
    contenders = {batch: Case(states, 2, batch, own, most).contenders()["ours"] for batch in (2, 4, 7, 8)}
    for run in contenders.values():
        run()
    seconds = fastest(contenders, budget)
    worst = max(seconds[batch] for batch in (2, 4, 7)) / seconds[8]
    print(f"{states} states, {'own' if own else 'shared'} tables: a small batch takes {worst:.2f} of one of 8")
    return worst


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    sizes = [2, 5, 16, 64] if options.quick else [2, 3, 5, 6, 8, 10, 16, 24, 32, 64]
    batches = [1, 8] if options.quick else [1, 4, 8, 32]
    cases = [
        Case(states, arity, batch, own)
        for arity in (2, 3, 4)
        for states in sizes
        for batch in batches
        for own in ([False] if batch == 1 else [False, True])
    ]
    budget = 0.15 if options.quick else 1.0
    rows = [measure(case, budget) for case in cases if case.entries <= ENTRIES]
    worst = min((row for row in rows if not row.case.product), key=lambda row: row.ratio)
    product = min((row for row in rows if row.case.product), key=lambda row: row.ratio)
    print_summary(
        {
            "worst_vs_torch": worst.ratio,
            "worst_case": str(worst.case),
            "worst_vs_torch_products": product.ratio,
            "worst_product": str(product.case),
            "below": [f"{row.case}: {row.ratio:.2f}" for row in rows if row.ratio < (1.0 if row.case.product else 1.2)],
            "dearest_small_batch": max(small_batches(k, own, budget) for k in (5, 32) for own in (False, True)),
            "cases": len(rows),
        }
    )


if __name__ == "__main__":
    main()
