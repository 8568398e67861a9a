"""What Eisner & Stoyanov 2011 say, and what the issue of stopping adds, tested on our numbers.

In: a study. Out: claims, each with the numbers that decide it; undecided where runs are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from studies.cost_aware.protocol import (
    ALL_FOUR,
    BOTH,
    DENSE,
    ERM,
    EVERYTHING,
    EVIDENCE,
    FIGURE1,
    FIXED,
    GATES,
    GROUP,
    L1_NAME,
    LEARNED,
    LIKELIHOOD,
    MAGNITUDE,
    MESSAGES,
    OURS,
    RESIDUAL,
    SPARSE,
    STOPPING,
    STRONG,
    SWEEPS,
    TOGETHER,
    TOLERANCE,
)
from studies.cost_aware.tables import (
    COST,
    TIME,
    CostAwareRuns,
    areas,
    at_equal_cost,
    averaged,
    dense_messages,
    interpolated,
)
from studies.harness.claims import MISSING, with_rules
from studies.harness.results import Claim
from studies.harness.statistics import mean, mean_and_error

SPARSER = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6)  # shares of the dense model's messages that count as pruned
CHANCE = 0.25  # the MSE of saying 1/2 everywhere
MODEST = 0.25  # of what the dense model gains over chance may be given up for a tenth of the messages
AGREEING = 0.9  # Spearman correlation of messages and time
SATURATED = 0.001  # an MSE nearer to the best one counts as the best

# Written on 2026-11-18; those of gates and of areas before any run of theirs. All but these repeat what decided the run
# that the page shows; what was changed after numbers had been seen stands in CHANGED.
_EQUAL = (
    "lower mean test MSE over the truths that both curves have, at every share of the dense model's messages (2, 5, "
    "10, 20, 40, 60 %) that both reach on every truth, and at least half of these shares reached; a mixture of a "
    "curve's best systems counts; all start from the same dense model and have the same epochs and rate"
)
_AREA = (
    "larger area between the curve and the worst corner of all curves of its figure (cost in powers of ten), in the "
    "mean over truths and on all truths but at most one; equal epochs and rates, baselines trained on for their budgets"
)
RULES = {
    "figure1": _EQUAL,
    "strong": _EQUAL,
    "figure1-order": "mean MSE with a tenth of the messages at most a quarter of (.25 - dense MSE) above the dense MSE",
    "strong-order": "mean MSE with a tenth of the messages at most a quarter of (.25 - dense MSE) above the dense MSE",
    "two-sweeps": "mean MSE at 2 sweeps at most .001 above the least mean MSE of all limits",
    "sweeps-likelihood": "lower mean MSE at every limit of sweeps that both have; the same epochs and rate for both",
    "stopping": (
        "lower mean MSE at the mean sweeps of each learned policy that has a choice (not all examples after one "
        "sweep), against a mixture of the other's best systems with that mean, and at least half of the prices "
        "decided; the others are trained on for their sweeps or tolerance with as many epochs"
    ),
    "stopping-area": _AREA,
    "stopping-easy": "fewer mean sweeps on easy examples than on hard ones at every price that leaves a choice",
    "both-area": "larger mean area over truths than each of the two alone; the worst corner is that of all curves",
    "figure1-clock": "mean Spearman correlation over truths at least .9",
    "gates": _AREA,
}
CHANGED = (
    "Levels that one of two curves did not reach on every truth decide nothing: set after the numbers of one truth.",
    "A policy that stops every example after one sweep decides nothing: set after the first run at full size.",
    "Areas of learned stopping (2026-11-18) came after that run, whose curves were known; those of gates before any.",
    "Areas of learned stopping were first judged from five prices, of which the highest stopped everything at once, "
    "beside eight numbers of sweeps: .0428 against .0438. An area is one of steps, so that fewer settings cover less; "
    "since 2026-11-19 there are eight prices from .01 to .3. The rules are as they were.",
)


def claims(study: CostAwareRuns) -> list[Claim]:
    """All of them, each with its rule."""
    found = [
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
        *_areas_of_stopping(study),
        *_gates(study),
    ]
    return with_rules([claim if claim.evidence else replace(claim, evidence=MISSING) for claim in found], RULES)


def about(claim: str) -> str:
    """Which of the studies the claim with this id is about."""
    return SWEEPS if claim == "two-sweeps" else next(study for study in EVERYTHING if claim.startswith(study))


def _areas_of_stopping(study: CostAwareRuns) -> list[Claim]:
    """Whole curves, besides equal cost."""
    text = "Over the whole curve, learned stopping dominates a larger area of sweeps and MSE than {}."
    return [
        _larger(study, STOPPING, "stopping-area-fixed", text.format("fixed numbers of sweeps"), LEARNED, (FIXED,)),
        _larger(study, STOPPING, "stopping-area-tolerance", text.format("fixed tolerances"), LEARNED, (TOLERANCE,)),
    ]


def _gates(study: CostAwareRuns) -> list[Claim]:
    """What the paper left for later; each is ours."""
    alone = (SPARSE, LEARNED, MESSAGES, EVIDENCE)
    said = "by messages"
    fixed = f"Message gates beat fixed numbers of sweeps, {said}."
    return [
        _larger(study, GATES, "gates-fixed", fixed, MESSAGES, (FIXED,)),
        _larger(study, GATES, "gates-residual", f"Message gates beat residual BP, {said}.", MESSAGES, (RESIDUAL,)),
        _larger(
            study, GATES, "gates-evidence", f"Choosing factors by what is observed beats one choice for all, {said}.",
            EVIDENCE, (SPARSE,),
        ),
        _larger(study, GATES, "gates-all", f"All four together beat each alone, {said}.", ALL_FOUR, alone),
        _larger(
            study, GATES, "gates-time", "All four together beat fixed sweeps and residual BP by measured time.",
            ALL_FOUR, (FIXED, RESIDUAL), TIME,
        ),
    ]  # fmt: skip


def _larger(
    study: CostAwareRuns, which: str, name: str, text: str, ours: str, others: Sequence[str], key: str = ""
) -> Claim:
    """By areas: larger than those of all others in the mean, and on all truths but at most one."""
    found = {curve: areas(study, which, curve, key) for curve in (ours, *others)}
    shared = sorted(set.intersection(*(set(values) for values in found.values())))
    if not shared:
        return Claim(name, text, None, "")
    means = {curve: mean([values[truth] for truth in shared]) for curve, values in found.items()}
    holds, evidence = [], [f"{ours} {means[ours]:.4g}"]
    for other in others:
        won = sum(found[ours][truth] > found[other][truth] for truth in shared)
        holds.append(means[ours] > means[other] and won >= max(1, len(shared) - 1))
        evidence.append(f"{other} {means[other]:.4g} (larger than it on {won} of {len(shared)} truths)")
    return Claim(name, text, all(holds), "; ".join(evidence))


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
