"""SampleRank steps a second: compiled walks against the same walks in plain Python classes, one core.

    python benchmarks/walk.py [--quick]

A step is everything: proposal, feature difference, gain of the metric, MIRA update, exact averaging, acceptance. The
chain has 9 tags and 20 features a token (and Gibbs proposals, which score all 9); the clusterings have 60 mentions with
about 12 of 40 features true of a pair, without and with features of whole entities. Before anything is timed both
engines must take the same steps and learn the same weights, bit for bit. Long documents are timed beside short ones,
in turn: a step costs what the factors it touches cost, and should cost no more in a document that no cache can hold. In
the clustering of 600 mentions entities grow a little larger than in that of 60 (`coref_members_at_10x`: how many times
as many others a move meets), which is work, not memory. Last line of output: JSON with `chain_steps_per_second`,
`coref_steps_per_second`, `vs_python` (the smaller of the two ratios), `slowdown_at_10x` (the larger of the two
slowdowns at ten times the length: at most 1.5 is wanted) and more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import loopwise as lw
from common import option_parser, print_summary
from loopwise import walk
from loopwise.walk.learning.updates import WalkWeights
from loopwise.walk.plan import WalkPlan
from timing import medians

TAGS, FEATURES, ACTIVE = 9, 50_000, 20
PAIR_FEATURES, SHARE = 40, 0.3


@dataclass
class Task:
    """A learner and its documents."""

    name: str
    learner: walk.Learner
    documents: list[Any]

    def session(self, engine: walk.WalkEngine) -> Any:
        return engine.open(self.learner.model, self.documents, self.learner.proposal, self.learner.metric)

    def visits(self, steps: int) -> list[Any]:
        return WalkPlan(self.learner.model, self.documents, steps, walk.Start.TRUTH, 0, True).visits(0)

    def run(self, session: Any, steps: int) -> WalkWeights:
        rule, model = self.learner.rule, self.learner.model
        learned, _ = session.learn(rule, WalkWeights.zeros(model.size, rule), self.visits(steps), 0)
        return learned


def chain_task(tokens: int, sentences: int) -> Task:
    generator = np.random.default_rng(0)
    groups = {"unary": lw.potentials.SparseGroup((TAGS,), FEATURES), "pair": lw.potentials.SparseGroup((TAGS, TAGS), 1)}
    model = walk.GraphModel(lw.SparsePotentials(groups))
    documents = [
        walk.GraphDocument.of_chain(
            TAGS,
            generator.integers(0, TAGS, tokens),
            lw.potentials.Features.of_table(generator.integers(0, FEATURES, (tokens, ACTIVE))),
        )
        for _ in range(sentences)
    ]
    learner = walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.MIRA())
    return Task(f"chain of {tokens} tokens", learner, documents)


def coref_task(mentions: int, documents: int, setwise: bool = False) -> Task:
    generator = np.random.default_rng(1)
    texts = []
    for _ in range(documents):
        features, row = walk.shared_rows(generator.random((mentions * (mentions - 1) // 2, PAIR_FEATURES)) < SHARE)
        extra: dict[str, Any] = {}
        if setwise:
            extra["predicates"] = generator.integers(0, 2, (features.rows, 10))
            extra["attributes"] = generator.integers(-1, 3, (mentions, 4))
        texts.append(walk.MentionDocument(np.arange(mentions) // 4, features, row, **extra))
    options = {"setwise": True, "predicate_scales": (1,) * 10, "attribute_values": (3,) * 4} if setwise else {}
    model = walk.ClusterModel(PAIR_FEATURES, **options)  # type: ignore[arg-type]
    learner = walk.SampleRank(model, walk.MentionMover(), metric=lw.metric.PairwiseAccuracy(), step=walk.MIRA())
    return Task(f"{mentions} mentions{', set-wise' if setwise else ''}", learner, texts)


def check(task: Task, steps: int) -> None:
    """Stops if the engines take different steps or learn different weights."""
    found = []
    for engine in (walk.Plain(), walk.CompiledWalks()):
        session = task.session(engine)
        session.trace = []
        found.append((task.run(session, steps), session.trace))
    (plain, plain_steps), (compiled, compiled_steps) = found
    same = np.array_equal(plain.values, compiled.values) and np.array_equal(plain.sums, compiled.sums)
    if plain_steps != compiled_steps or not same:
        raise SystemExit(f"{task.name}: the compiled walk is not the plain one; nothing was timed")


def rates(task: Task, compiled_steps: int, plain_steps: int, repeats: int) -> tuple[float, float]:
    """Steps a second, compiled and plain; the two take turns."""
    fast, slow = task.session(walk.CompiledWalks()), task.session(walk.Plain())
    seconds = medians(
        {"compiled": lambda: task.run(fast, compiled_steps), "plain": lambda: task.run(slow, plain_steps)}, repeats
    )
    count = len(task.documents)
    return count * compiled_steps / seconds["compiled"], count * plain_steps / seconds["plain"]


def slowdowns(tasks: list[Task], steps: int, repeats: int) -> list[float]:
    """Seconds a step of each task over those of the first; all take turns."""
    sessions = [task.session(walk.CompiledWalks()) for task in tasks]
    runs = {
        task.name: partial(task.run, session, steps // len(task.documents))
        for task, session in zip(tasks, sessions, strict=True)
    }
    seconds = medians(runs, repeats)
    return [seconds[task.name] / seconds[tasks[0].name] for task in tasks[1:]]


def members(task: Task, steps: int) -> float:
    """How many other mentions a move meets, on average, where walks of so many steps in all have ended."""
    session = task.session(walk.CompiledWalks())
    task.run(session, steps // len(task.documents))
    met = []
    for labels in session.states():
        sizes = np.bincount(labels)
        met.append((sizes @ sizes) / len(labels) - 1 + len(labels) / np.count_nonzero(sizes))
    return float(np.mean(met))


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    repeats, scale = (3, 1) if options.quick else (7, 5)
    tasks = {"chain": chain_task(20, 100), "coref": coref_task(60, 10), "setwise": coref_task(60, 10, setwise=True)}
    found: dict[str, tuple[float, float]] = {}
    for name, task in tasks.items():
        check(task, 20)
        steps = 400_000 * scale // len(task.documents)
        found[name] = rates(task, steps, 2_000 * scale // len(task.documents), repeats)
        compiled, plain = found[name]
        print(f"{task.name}: {compiled:,.0f} steps/s, plain {plain:,.0f}: {compiled / plain:.0f} times", flush=True)
    steps = 400_000 * scale
    chains = [tasks["chain"], chain_task(200, 10), chain_task(2000, 1)]
    clusterings = [tasks["coref"], coref_task(600, 1)]
    (chain_10, chain_100), (coref_10,) = (slowdowns(each, steps, repeats) for each in (chains, clusterings))
    more = members(clusterings[1], steps) / members(clusterings[0], steps)
    print(f"chains 10 and 100 times as long: {chain_10:.2f} and {chain_100:.2f} times as long a step")
    print(f"10 times the mentions: {coref_10:.2f} times as long a step", end=", ")
    print(f"which meets {more:.2f} times as many of them")
    ratios = {name: compiled / plain for name, (compiled, plain) in found.items()}
    print_summary(
        {
            "chain_steps_per_second": found["chain"][0],
            "coref_steps_per_second": found["coref"][0],
            "vs_python": min(ratios["chain"], ratios["coref"]),
            "setwise_steps_per_second": found["setwise"][0],
            "chain_vs_python": ratios["chain"],
            "coref_vs_python": ratios["coref"],
            "setwise_vs_python": ratios["setwise"],
            "slowdown_at_10x": max(chain_10, coref_10),
            "chain_slowdown_at_10x": chain_10,
            "chain_slowdown_at_100x": chain_100,
            "coref_slowdown_at_10x": coref_10,
            "coref_members_at_10x": more,
        }
    )


if __name__ == "__main__":
    main()
