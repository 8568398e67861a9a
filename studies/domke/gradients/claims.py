"""What Domke 2010 says about its Figure 2, tested on our numbers.

In: the cells of Figure 2. Out: claims, each with the ratios that decide it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from studies.domke.gradients.run import DIRECT, ENTROPIES, ESTIMATORS, INFERENCE, WARM, item_name
from studies.harness.claims import MISSING, claim_of, with_rules
from studies.harness.results import Cell, Claim, Results

TWICE = (1.4, 3.0)  # two inference calls, with room for what else a backward does
NEAR = 3.0  # curves within this factor lie close together on the paper's logarithmic axes
SENSITIVE = 2.0

# Written on 2026-11-18, before any run with warm starts; the bounds are those of the run that the page shows.
_MEAN = "mean seconds of the backward over seeds, one thread, engines and tolerances as published"
RULES = {
    "figure2-direct-small": f"direct at most the fastest other on the smallest grid, for both entropies; {_MEAN}",
    "figure2-direct-scaling": "largest exponent of time in variables between the two largest grids, for both entropies",
    "figure2-iterative-sensitive": "MINRES takes at least twice as long at the largest strength as at the smallest, "
    "and grows more than the direct solver, for both entropies",
    "figure2-perturbation-twice": f"median ratio to inference over all panels of the entropy from 1.4 to 3; {_MEAN}",
    "figure2-perturbation-warm": f"median ratio over all panels of the entropy at most 1; {_MEAN}",
    "figure2-perturbation-near-back-bp": f"median ratio from 1/3 to 3 (Bethe); {_MEAN}",
}
CHANGED = (
    "Figure 2: the cost of perturbation is decided for each entropy since 2026-11-18; before, by one median over both.",
)
RETIRED = ("figure2-perturbation-twice",)  # ids of claims that others took the place of

Curve = dict[str, float]  # seconds by column, in the order of the columns


def figure2_claims(results: Results) -> list[Claim]:
    """The published shape of the curves, and whether ours have it; each with its rule."""
    found = [
        _small(results),
        _scaling(results),
        _sensitive(results),
        *(_twice(results, entropy) for entropy in ENTROPIES),
        *(_warm(results, entropy) for entropy in ENTROPIES),
        _near(results),
    ]
    return with_rules(found, RULES)


def _curve(results: Results, entropy: str, against: str, row: str) -> Curve:
    cells: list[Cell] = [cell for cell in results.of_item(item_name(entropy, against)) if cell.row == row]
    return {cell.column: cell.ours for cell in sorted(cells, key=_place) if cell.ours}


def _place(cell: Cell) -> float:
    return float(cell.column.split("x")[0])


def _small(results: Results) -> Claim:
    text = "The direct solver is the fastest gradient on small grids."
    holds, evidence = [], []
    for entropy in ENTROPIES:
        direct = _curve(results, entropy, "size", DIRECT)
        if not direct:
            continue
        column = next(iter(direct))
        others = {row: _curve(results, entropy, "size", row).get(column) for row in ESTIMATORS if row != DIRECT}
        known = {row: seconds for row, seconds in others.items() if seconds}
        if known:
            best = min(known, key=known.__getitem__)
            holds.append(direct[column] <= known[best])
            evidence.append(
                f"{entropy} {column}: direct {_ms(direct[column])}, fastest other ({best}) {_ms(known[best])}"
            )
    return claim_of("figure2-direct-small", text, holds, evidence)


def _scaling(results: Results) -> Claim:
    text = "The direct solver scales worst with the size of the grid."
    holds, evidence = [], []
    for entropy in ENTROPIES:
        slopes = {row: _slope(_curve(results, entropy, "size", row)) for row in ESTIMATORS}
        known = {row: slope for row, slope in slopes.items() if slope is not None}
        if DIRECT in known and len(known) > 1:
            others = {row: slope for row, slope in known.items() if row != DIRECT}
            steepest = max(others, key=others.__getitem__)
            holds.append(known[DIRECT] > others[steepest])
            evidence.append(
                f"{entropy}: time grows as variables to the power {known[DIRECT]:.2f} (direct), "
                f"{others[steepest]:.2f} ({steepest}, the next)"
            )
    return claim_of("figure2-direct-scaling", text, holds, evidence)


def _slope(curve: Curve) -> float | None:
    """The exponent between the largest two grids: time ~ variables^exponent."""
    points = [(float(column.split("x")[0]) ** 2, seconds) for column, seconds in curve.items()][-2:]
    if len(points) < 2:
        return None
    (small, fast), (large, slow) = points
    return math.log(slow / fast) / math.log(large / small)


def _sensitive(results: Results) -> Claim:
    text = "The iterative solver is sensitive to the interaction strength, the direct solver is not."
    holds, evidence = [], []
    for entropy in ENTROPIES:
        iterative = _curve(results, entropy, "strength", "MINRES")
        direct = _curve(results, entropy, "strength", DIRECT)
        shared = [column for column in iterative if column in direct]
        if len(shared) > 1:
            first, last = shared[0], shared[-1]
            grown, steady = iterative[last] / iterative[first], direct[last] / direct[first]
            holds.append(grown >= SENSITIVE and grown > steady)
            evidence.append(
                f"{entropy}, a = {first} to {last}: MINRES takes {grown:.1f} times as long, direct {steady:.1f}"
            )
    return claim_of("figure2-iterative-sensitive", text, holds, evidence)


def _twice(results: Results, entropy: str) -> Claim:
    text = f"Two-sided perturbation takes about twice as long as inference ({entropy})."
    ratios = list(_ratios(results, "perturbation", INFERENCE, (entropy,)))
    return _about(f"perturbation-twice-{entropy.lower()}", text, ratios, TWICE)


def _warm(results: Results, entropy: str) -> Claim:
    text = f"Perturbed runs that start at the messages of inference take no longer than others ({entropy}; ours)."
    ratios = list(_ratios(results, WARM, "perturbation", (entropy,)))
    return _about(f"perturbation-warm-{entropy.lower()}", text, ratios, (0.0, 1.0))


def _near(results: Results) -> Claim:
    text = "Perturbation and back-BP take similar time (Bethe)."
    ratios = list(_ratios(results, "perturbation", "back-BP", ("Bethe",)))
    return _about("perturbation-near-back-bp", text, ratios, (1 / NEAR, NEAR))


def _about(name: str, text: str, ratios: list[float], bounds: tuple[float, float]) -> Claim:
    """Whether the median of the ratios is within the bounds."""
    if not ratios:
        return claim_of(f"figure2-{name}", text, [], [MISSING])
    middle = statistics.median(ratios)
    evidence = f"ratio: median {middle:.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
    return claim_of(f"figure2-{name}", text, [bounds[0] <= middle <= bounds[1]], [evidence])


def _ratios(results: Results, above: str, below: str, entropies: tuple[str, ...]) -> Iterator[float]:
    for entropy in entropies:
        for against in ("size", "strength"):
            upper, lower = _curve(results, entropy, against, above), _curve(results, entropy, against, below)
            yield from (upper[column] / lower[column] for column in upper if column in lower)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
