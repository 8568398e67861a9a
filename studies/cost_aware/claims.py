"""What Eisner & Stoyanov 2011 say, and what the issue of stopping adds, tested on our numbers.

In: a study. Out: claims, each with the numbers that decide it; undecided where runs are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from studies.cost_aware.protocol import (
    BOTH,
    DENSE,
    ERM,
    FIGURE1,
    FIXED,
    GROUP,
    L1_NAME,
    LEARNED,
    LIKELIHOOD,
    MAGNITUDE,
    OURS,
    SPARSE,
    STOPPING,
    STRONG,
    SWEEPS,
    TOGETHER,
    TOLERANCE,
)
from studies.cost_aware.tables import (
    COST,
    CostAwareRuns,
    areas,
    at_equal_cost,
    averaged,
    dense_messages,
    interpolated,
)
from studies.harness.results import Claim
from studies.harness.statistics import mean, mean_and_error

SPARSER = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6)  # shares of the dense model's messages that count as pruned
CHANCE = 0.25  # the MSE of saying 1/2 everywhere
MODEST = 0.25  # of what the dense model gains over chance may be given up for a tenth of the messages
AGREEING = 0.9  # Spearman correlation of messages and time
SATURATED = 0.001  # an MSE nearer to the best one counts as the best


def claims(study: CostAwareRuns) -> list[Claim]:
    """All of them."""
    return [
        _against(study, FIGURE1, L1_NAME, "Learned sparsity is below L1 at all levels but the densest."),
        _against(study, FIGURE1, GROUP, "It is also below the group lasso, a stronger baseline (ours)."),
        _against(study, FIGURE1, MAGNITUDE, "It is also below magnitude pruning with refitting (ours)."),
        _fewer(study, FIGURE1),
        _against(study, STRONG, L1_NAME, "Learned sparsity is below L1, on the strong truth."),
        _against(study, STRONG, GROUP, "It is below the group lasso, on the strong truth (ours)."),
        _against(study, STRONG, MAGNITUDE, "It is below magnitude pruning, on the strong truth (ours)."),
        _fewer(study, STRONG),
        _two_sweeps(study),
        _likelihood(study),
        _stopping(study, "stopping-fixed", FIXED, "any fixed number of sweeps, trained for it,"),
        _stopping(study, "stopping-tolerance", TOLERANCE, "any fixed tolerance, trained for it,"),
        _easy(study),
        _together(study),
        _clock(study),
    ]


def _against(study: CostAwareRuns, which: str, other: str, text: str) -> Claim:
    """Mean losses at equal messages over the truths that both have. Levels that one of them did not reach decide
    nothing."""
    name = f"{which}-{other.replace(' ', '-').lower()}"
    costs = [share * dense_messages(study) for share in SPARSER]
    ours, theirs = at_equal_cost(study, which, OURS, costs), at_equal_cost(study, which, other, costs)
    shared = [truth for truth in ours if truth in theirs]
    if not shared:
        return Claim(name, text, None, "")
    holds, evidence = [], []
    for place, share in enumerate(SPARSER):
        one, two = ([rows[truth][place] for truth in shared] for rows in (ours, theirs))
        holds.append(_below(one, two))
        evidence.append(f"{share:.0%} of the messages: {_compared(one, two)}")
    return Claim(name, text, _all(holds), "; ".join(evidence))


def _fewer(study: CostAwareRuns, which: str) -> Claim:
    name = f"{which}-order-of-magnitude"
    text = (
        "An order of magnitude fewer messages at a modest loss (here: a tenth of them for at most a quarter of what "
        f"the dense model gains over chance{', strong truth' if which == STRONG else ''})."
    )
    dense = {truth: points[0]["loss"] for truth, points in study.points(which, DENSE).items()}
    rows = at_equal_cost(study, which, OURS, [0.1 * dense_messages(study)])
    shared = [truth for truth in rows if truth in dense]
    reached = sum(math.isfinite(rows[truth][0]) for truth in shared)
    if not shared or reached < len(shared):
        return Claim(name, text, None, f"a tenth was reached on {reached} of {len(shared)} truths" if shared else "")
    pruned, whole = mean([rows[truth][0] for truth in shared]), mean([dense[truth] for truth in shared])
    best = min(whole, min((mean.loss for mean in averaged(study, which, OURS)), default=whole))
    holds = pruned - whole <= MODEST * (CHANCE - whole)
    evidence = f"MSE {_number(pruned)} with a tenth of the messages, {_number(whole)} dense, {_number(best)} at best"
    return Claim(name, text, holds, evidence)


def _two_sweeps(study: CostAwareRuns) -> Claim:
    text = "Trained for the loss, two sweeps of BP reach the best accuracy of all limits, to within .001."
    curve = {round(mean.setting): mean.loss for mean in averaged(study, SWEEPS, ERM)}
    if 2 not in curve or len(curve) < 3:
        return Claim("two-sweeps", text, None, "")
    best = min(curve, key=lambda count: curve[count])
    holds = curve[2] <= curve[best] + SATURATED
    evidence = "; ".join(f"{count} sweeps {_number(loss)}" for count, loss in sorted(curve.items()))
    return Claim("two-sweeps", text, holds, f"{evidence} (best at {best})")


def _likelihood(study: CostAwareRuns) -> Claim:
    text = "At every limit of sweeps training for the loss beats approximate likelihood, on a model of the wrong order."
    erm, nll = study.points(SWEEPS, ERM), study.points(SWEEPS, LIKELIHOOD)
    shared = [truth for truth in erm if truth in nll]
    by_setting = [[{row["setting"]: row["loss"] for row in curve[truth]} for truth in shared] for curve in (erm, nll)]
    limits = sorted(set.intersection(*(set(losses) for losses in (*by_setting[0], *by_setting[1])))) if shared else []
    if not limits:
        return Claim("sweeps-likelihood", text, None, "")
    holds, evidence = [], []
    for limit in limits:
        one, two = ([losses[limit] for losses in curve] for curve in by_setting)
        holds.append(_below(one, two))
        evidence.append(f"{limit:.0f} sweeps {_compared(one, two)}")
    return Claim("sweeps-likelihood", text, _all(holds), "; ".join(evidence))


def _stopping(study: CostAwareRuns, name: str, other: str, what: str) -> Claim:
    """At the mean sweeps of each learned system, against a mixture of the others with that mean. A policy that stops
    every example after the first sweep is a fixed number of sweeps itself, and decides nothing."""
    text = f"Learned stopping beats {what} at equal mean sweeps (examples of mixed difficulty; not in the paper)."
    ours, theirs = study.points(STOPPING, LEARNED), study.points(STOPPING, other)
    shared = [truth for truth in ours if truth in theirs]
    if not shared:
        return Claim(name, text, None, "")
    holds: list[bool | None] = []
    evidence, key = [], COST[STOPPING]
    for place in range(min(len(ours[truth]) for truth in shared)):
        mine = [ours[truth][place] for truth in shared]
        sweeps = mean([row[key] for row in mine])
        if all(row[key] == 1 for row in mine):
            holds.append(None)
            evidence.append("1 sweep for every example: no choice is left")
            continue
        others = [interpolated(theirs[truth], row[key], key) for truth, row in zip(shared, mine, strict=True)]
        losses = [row["loss"] for row in mine]
        holds.append(_below(losses, others))
        evidence.append(f"{sweeps:.2f} sweeps: {_compared(losses, others)}")
    return Claim(name, text, _all(holds), "; ".join(evidence))


def _easy(study: CostAwareRuns) -> Claim:
    text = "The learned policy spends fewer sweeps on easy examples than on hard ones."
    runs = list(study.points(STOPPING, LEARNED).values())
    kinds = len(study.protocol.mixed.erased)
    if not runs or kinds < 2:
        return Claim("stopping-easy", text, None, "")
    holds, evidence = [], []
    for place in range(min(len(points) for points in runs)):
        easy, hard = (mean([points[place][f"sweeps {kind}"] for points in runs]) for kind in (0, kinds - 1))
        holds.append(easy < hard if (easy, hard) != (1, 1) else None)
        evidence.append(f"{easy:.2f} and {hard:.2f}")
    return Claim("stopping-easy", text, _all(holds), "sweeps of easy and hard ones, by price: " + "; ".join(evidence))


def _together(study: CostAwareRuns) -> Claim:
    text = "Stopping and sparsity together dominate a larger area than either alone."
    found = {curve: areas(study, BOTH, curve) for curve in (SPARSE, LEARNED, TOGETHER)}
    shared = set.intersection(*(set(values) for values in found.values()))
    if not shared:
        return Claim("both-area", text, None, "")
    means = {curve: mean([values[truth] for truth in shared]) for curve, values in found.items()}
    evidence = "; ".join(f"{curve} {value:.4g}" for curve, value in means.items())
    return Claim("both-area", text, means[TOGETHER] > max(means[SPARSE], means[LEARNED]), evidence)


def _clock(study: CostAwareRuns) -> Claim:
    text = "Measured time falls with the messages that are sent (pruned systems of Figure 1, fixed sweeps)."
    runs = study.points(FIGURE1, OURS)
    if not runs:
        return Claim("figure1-clock", text, None, "")
    shares = [
        _agreement([row["sent"] for row in points], [row["microseconds"] for row in points]) for points in runs.values()
    ]
    evidence = f"Spearman correlation of messages sent and time an example: {mean(shares):.3f}"
    return Claim("figure1-clock", text, mean(shares) >= AGREEING, evidence)


def _agreement(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; 1 where nothing varies, 0 where only one of them does."""
    from scipy.stats import spearmanr

    varying = [len(set(values)) > 1 for values in (one, other)]
    return float(spearmanr(one, other).statistic) if all(varying) else float(not any(varying))


def _below(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Whether the mean of the first is lower; None if some are infinite: a level that was not reached."""
    if not all(map(math.isfinite, (*ours, *theirs))):
        return None
    return mean(ours) < mean(theirs)


def _compared(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Both means, and the gap with its standard error over truths."""
    if _below(ours, theirs) is None:
        reached = [sum(map(math.isfinite, values)) for values in (ours, theirs)]
        return f"reached by {reached[0]} and {reached[1]} of {len(ours)}"
    gap, error = mean_and_error([one - two for one, two in zip(ours, theirs, strict=True)])
    spread = "" if error is None else f" ({gap:+.4f} ± {error:.4f})"
    return f"{mean(ours):.4f} against {mean(theirs):.4f}{spread}"


def _all(holds: Sequence[bool | None]) -> bool | None:
    """False if one fails; True if those that are decided hold, and at least half are decided."""
    decided = [each for each in holds if each is not None]
    if not all(decided):
        return False
    return True if 2 * len(decided) >= len(holds) else None


def _number(value: float) -> str:
    return f"{value:.4f}"
