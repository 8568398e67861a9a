r"""How many samples it takes: the share of constraints that weights violate, against how many they were made to meet.

In: a :class:`ConstraintsProtocol`. Out: cells, a claim, a picture. The paper (section 3.4) bounds what weights that
meet N sampled constraints leave violated by :math:`\epsilon` with probability :math:`1-\delta` if :math:`N \ge
\frac{c}{\epsilon} (d\ln\frac1\epsilon+\ln\frac1\delta)`, d weights. Here: constraints are pairs of a clustering and a
move of it, from walks at infinite temperature over made-up documents; the signal is itself a log-linear score with
hidden weights, so that all constraints can be met; perceptron steps go over the N of them until all are; fresh ones are
counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref import made_documents
from loopwise.apps.coref.features import Featuriser
from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from loopwise.walk import ConstantMargin, MentionMover, Pair, SampleRank, Start, Stream, Unit, Walker
from loopwise.walk.models.model import Sparse, dot
from studies.harness.results import FULL, QUICK, Cell, Claim, Deadline, Results
from studies.harness.runs import read_run, write_run
from studies.harness.statistics import mean_and_error
from studies.harness.study import StudyOrder

ITEM = "Table 1: violated constraints"
PICTURE = "violations.png"
CAPTION = "Share of fresh constraints that weights violate which meet N sampled ones, and the bound."
ROW, BOUND = "violated share", "bound, c = 1"
DELTA = 0.05  # of the bound
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ConstraintsProtocol:
    """``sizes`` of samples; ``fresh`` constraints to count; ``restart``: steps of a walk from the truth."""

    sizes: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10000)
    repeats: int = 3
    fresh: int = 5000
    documents: int = 20
    mentions: int = 20
    restart: int = 40
    passes: int = 2000


PROTOCOLS = {
    FULL: ConstraintsProtocol(),
    QUICK: ConstraintsProtocol(sizes=(30, 100, 300, 1000), repeats=2, fresh=2000),
}


def bound(constraints: int, weights: int) -> float:
    r"""The :math:`\epsilon` of :math:`N = \frac1\epsilon(d\ln\frac1\epsilon+\ln\frac1\delta)`, by bisection; at most 1.

    >>> epsilon = bound(10_000, 50)
    >>> abs((50 * math.log(1 / epsilon) + math.log(1 / DELTA)) / epsilon - 10_000) < 1
    True
    """
    low, high = 1e-12, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        enough = (weights * math.log(1 / middle) + math.log(1 / DELTA)) / middle
        low, high = (middle, high) if enough > constraints else (low, middle)
    return high


class SampledConstraints:
    """Differences of features between neighbouring clusterings, ordered by hidden weights."""

    def __init__(self, protocol: ConstraintsProtocol, seed: int) -> None:
        made = made_documents(protocol.documents, seed=seed, mentions=protocol.mentions)
        featuriser = Featuriser.of(made, setwise=False, links=False)
        self.model, self.restart = featuriser.model(), protocol.restart
        self.documents = [featuriser(document) for document in made]
        self.hidden: list[float] = np.random.default_rng([seed, 11]).normal(size=self.model.size).tolist()

    def draw(self, count: int, stream: int) -> list[Sparse]:
        """``count`` of them: the features of the better less those of the worse."""
        random, mover, found = Stream(stream), MentionMover(), list[Sparse]()
        while len(found) < count:
            world = self.model.world(self.documents[random.below(len(self.documents))], Start.TRUTH, random)
            for _ in range(self.restart):
                move = mover.propose(Walker(self.model, world, (), 1.0, random)).move
                if move is None:
                    continue
                delta = {key: value for key, value in self.model.difference(world, move).items() if value}
                move.apply(world)
                gain = dot(delta, self.hidden)
                if gain != 0.0:
                    sign = math.copysign(1.0, gain)
                    found.append({key: sign * value for key, value in delta.items()})
        return found[:count]

    def learn(self, constraints: Sequence[Sparse], passes: int) -> tuple[list[float], float]:
        """Weights by perceptron steps, until all constraints are met or ``passes`` are over; the share left."""
        pairs = [Pair(delta, 1.0) for delta in constraints]
        tiny = ConstantMargin(1e-9)  # the order is all that counts
        learner = SampleRank(self.model, MentionMover(), metric=None, step=Unit(), margin=tiny)
        for _ in range(passes):
            before = learner.tally.violated
            learner.fit_pairs(pairs)
            if learner.tally.violated == before:
                break
        weights: list[float] = learner.raw.tolist()
        return weights, violated(constraints, weights)


def violated(constraints: Sequence[Sparse], weights: list[float]) -> float:
    """The share of constraints whose better state does not score higher."""
    return sum(dot(delta, weights) <= 0.0 for delta in constraints) / max(len(constraints), 1)


def run_violations(results: Results, order: StudyOrder, deadline: Deadline) -> bool:
    """Runs what is left and puts cells, the claim and the picture; whether it is complete. All this counts as a run."""
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    path = runs / "violations.txt"  # not .json: the table's other runs come and go with their own protocol
    runs.mkdir(parents=True, exist_ok=True)
    identity = json.loads(json.dumps({**asdict(protocol), "seed": results.seed}))
    stored = read_run(path) or {}
    shares: dict[str, dict[str, float]] = stored["shares"] if stored.get("identity") == identity else {}
    source: SampledConstraints | None = None
    for repeat in range(protocol.repeats):
        for size in protocol.sizes:
            key = f"{size}/{repeat}"
            if key in shares or deadline.passed:
                continue
            order.tell(f"violated constraints: {size}, {repeat + 1} of {protocol.repeats}", 0)
            source = source or SampledConstraints(protocol, results.seed)
            drawn = source.draw(size, 1 + repeat)
            weights, left = source.learn(drawn, protocol.passes)
            fresh = source.draw(protocol.fresh, 1_000_003 + repeat)
            used = len({name for delta in drawn + fresh for name in delta})
            shares[key] = {"fresh": violated(fresh, weights), "left": left, "weights": used}
            write_run(path, {"identity": identity, "shares": shares})
    _put(results, protocol, shares)
    return len(shares) == protocol.repeats * len(protocol.sizes)


def _put(results: Results, protocol: ConstraintsProtocol, shares: dict[str, dict[str, float]]) -> None:
    points, cells = [], []
    for size in protocol.sizes:
        mine = [entry for key, entry in shares.items() if key.startswith(f"{size}/")]
        if mine:
            mean, error = mean_and_error([entry["fresh"] for entry in mine])
            limit = bound(size, round(max(entry["weights"] for entry in mine)))
            left = max(entry["left"] for entry in mine)
            cells.append(Cell(ITEM, ROW, str(size), mean, error, len(mine), more={"left": left}))
            cells.append(Cell(ITEM, BOUND, str(size), limit, None, 1))
            points.append((size, mean, error or 0.0, limit, left))
    results.put_items([ITEM], cells)
    results.claim(_claim(points))
    if points:
        sizes, means, errors, limits, _ = (list(column) for column in zip(*points, strict=True))
        curves = [Curve(ROW, sizes, means, errors), Curve(BOUND, sizes, limits, dashed=True)]
        panel = Panel("Fresh constraints that are violated", "constraints met, N", "share", curves)
        save(panels([panel]), results.folder / PICTURE)


def judge(results: Results) -> Iterator[Claim]:
    """The claim, decided from the cells; nothing where there are none."""
    shares = {cell.column: cell for cell in results.of_item(ITEM) if cell.row == ROW}
    limits = {cell.column: cell.ours for cell in results.of_item(ITEM) if cell.row == BOUND}
    if shares:
        yield _claim(
            [
                (int(size), cell.ours or 0.0, cell.stderr or 0.0, limits[size] or 0.0, cell.more["left"])
                for size, cell in shares.items()
            ]
        )


def _claim(points: Sequence[tuple[int, float, float, float, float]]) -> Claim:
    text = "The mass of violated constraints falls with the number of samples as the bound says: below it, and as fast."
    name, rule = "table1-violations", "at every N whose samples are all met: share below the bound; slope at most its"
    met = [point for point in points if point[4] == 0]  # what the bound speaks of
    seen = [point for point in met if point[1] > 0]
    if len(seen) < 3:
        return Claim(name, text, None, "too few samples whose constraints are all met", rule)
    slope, limit = (_slope([p[0] for p in seen], [p[place] for p in seen]) for place in (1, 3))
    below = all(mean <= most for _, mean, _, most, _ in met)
    others = ", ".join(str(point[0]) for point in points if point[4] > 0)
    evidence = (
        f"share {met[0][1]:.3f} at N = {met[0][0]}, {met[-1][1]:.4f} at {met[-1][0]}; slope of logarithms {slope:.2f}, "
        f"of the bound {limit:.2f}; {'always' if below else 'not always'} below the bound with c = 1"
        + (f"; left out: N = {others}, whose samples were not all met within the passes allowed" if others else "")
    )
    return Claim(name, text, slope <= limit and below, evidence, rule)


def _slope(sizes: Sequence[int], shares: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(shares), 1)[0])
