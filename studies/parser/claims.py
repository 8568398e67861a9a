"""What Gormley, Dredze & Eisner 2015 say, tested on our runs.

In: a :class:`ParserRuns`. Out: claims, each with the numbers that decide it; undecided where runs are missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from loopwise.apps.parser.significance import ParserComparison
from studies.harness.claims import MISSING, with_rules
from studies.harness.results import Claim
from studies.parser.finished import Average, ParserRuns
from studies.parser.protocol import (
    AR,
    BOTH,
    BUDGET,
    CALIBRATION,
    CLL,
    EXACT,
    FIGURE3,
    FIGURE4,
    GRAND,
    L2,
    L2_AR,
    LONGER,
    SIB,
    TABLE1,
    TABLE2,
    UNARY,
    ParserProtocol,
    ParserTraining,
    trainings,
)  # fmt: skip
from studies.parser.tables import MODELS, second_order

LEVEL = 0.05  # of tests; the paper has none
AS_GOOD = 0.3  # UAS: what is no more than that behind counts as being as good
ONE_SIDED = 1.645  # standard errors

# Written on 2026-11-18, before any run after those that the page shows.
_PAIRED = "paired bootstrap over test sentences, one training each, learning rates chosen on development data"
_AS_GOOD = f"difference at most .3 UAS below 0: its lower one-sided 95 % bound is above -.3; {_PAIRED}"
RULES = {
    "figure3-two-as-four": _AS_GOOD,
    "figure3-largest-at-one": f"gain at 1 iteration larger than at each other number; {_PAIRED}",
    "table2-largest-at-one": "mean gain over treebanks larger at 1 iteration than at each other number",
    "table2-average": "mean gain over treebanks above 0 with p < .05 for the first order and every number of "
    "iterations; bootstrap over test sentences, those of each treebank drawn anew by themselves",
    "figure4-cycles-hurt-cll": f"both kinds at most as good as the better one by development UAS; {_PAIRED}",
    "figure4-cycles-not-l2": _AS_GOOD + "; against the better one by development UAS",
    "table1-matches-exact": _AS_GOOD,
    "figure3-risk-alone": "lower test UAS than CLL and than L2 at every number of iterations; rates tuned alike",
    "figure3-risk-after": "higher with p < .05 at one number of iterations at most",
    "figure4-first-order": f"higher with p < .05; {_PAIRED}",
    "table1-exact": f"higher with p < .05; {_PAIRED}",
    "longer-l2": f"L2 above CLL with p < .05 after ten epochs, without a prior and with the printed one; {_PAIRED}",
    "calibration-scaled": "mean gap of belief and frequency of the parse's arcs at the temperature of development data "
    "at most that of beliefs as they are, for L2 and CLL at 4 iterations",
}
CHANGED = (
    "'As good as' has a margin of .3 UAS, one-sided, since 2026-11-18; before, it was a difference of at least 0 or, "
    "against exact inference, one that was not significantly below 0.",
    "'L2 beats CLL' of exact models and of averages asks for p < .05 since 2026-11-18; before, for the sign alone.",
    "'After ten epochs': with development data the first run (2026-11-19) had kept the third epoch, or the first, of "
    "ten, and its numbers were those of six epochs to the digit; since then all ten count. The rule is as it was.",
)


ABOUT = {
    "figure3": FIGURE3, "figure4": FIGURE4, "table1": TABLE1, "table2": TABLE2, "longer": LONGER,
    "calibration": CALIBRATION,
}  # fmt: skip


def about(claim: str) -> str:
    """Which item the claim with this id is about."""
    return ABOUT[claim.partition("-")[0]]


def claims(study: ParserRuns) -> list[Claim]:
    """All of them, each with its rule."""
    found = [
        _two_against_four(study),
        _largest_at_one(study),
        _largest_at_one_everywhere(study),
        _average(study),
        _cycles_hurt(study),
        _cycles_help(study),
        _matches_exact(study),
        _risk_alone(study),
        _risk_after(study),
        _first_order(study),
        _exact_grandparents(study),
        _longer(study),
        _scaled(study),
    ]
    return with_rules(found, RULES)


Found = ParserComparison | Average
Decide = Callable[[Sequence[Found]], bool]


def as_good(found: Found) -> bool:
    """Whether the lower one-sided 95 % bound of a difference is above the margin."""
    return found.gap - ONE_SIDED * found.error > -AS_GOOD


def better(found: Found) -> bool:
    """Whether a difference is above 0, and significantly."""
    return found.gap > 0 and found.p < LEVEL


def largest(one: Found, others: Iterable[Found]) -> bool:
    """Whether the first difference is larger than each of the others."""
    return all(one.gap > other.gap for other in others)


# What decides a claim, given the comparisons that its evidence lists.
DECIDE: dict[str, Decide] = {
    "figure3-two-as-four": lambda found: as_good(found[0]),
    "figure3-largest-at-one": lambda found: largest(found[0], found[1:]),
    "table2-largest-at-one": lambda found: largest(found[1], found[2:]),  # the first is of the first order
    "table2-average": lambda found: all(map(better, found)),
    "figure4-cycles-hurt-cll": lambda found: found[0].gap <= 0,
    "figure4-cycles-not-l2": lambda found: as_good(found[0]),
    "table1-matches-exact": lambda found: as_good(found[0]),
    "figure3-risk-alone": lambda found: all(each.gap < 0 for each in found),
    "figure3-risk-after": lambda found: sum(map(better, found)) <= 1,
    "figure4-first-order": lambda found: better(found[0]),
    "table1-exact": lambda found: better(found[0]),
    "longer-l2": lambda found: all(map(better, found)),
}
_PRINTED = re.compile(r"([+-][\d.]+) ± ([\d.]+), p = ([\d.e-]*\d)")  # as _text writes them


def judged_again(known: Iterable[Claim], protocol: ParserProtocol) -> list[Claim]:
    """All claims by the rules as they are, where the files of the runs are gone: from the differences that the known
    claims print, to two digits. Those that print none are left as they are, with their rules."""
    stored = {claim.id: claim for claim in known if claim.holds is not None}
    found = []
    for claim in claims(ParserRuns(Path("gone"), protocol, [])):
        old = stored.get(claim.id)
        if old is None:
            found.append(claim)
            continue
        numbers = [
            ParserComparison(float(gap), float(error), float(p), 0) for gap, error, p in _PRINTED.findall(old.evidence)
        ]
        holds = DECIDE[claim.id](numbers) if numbers and claim.id in DECIDE else old.holds
        found.append(replace(claim, holds=holds, evidence=old.evidence))
    return found


def _decided(name: str, text: str, found: Iterable[Found], evidence: str) -> Claim:
    return Claim(name, text, DECIDE[name](list(found)), evidence)


def _longer(study: ParserRuns) -> Claim:
    name, text = "longer-l2", "L2 beats CLL after ten epochs too, without a prior and with the printed one (English)."
    jobs = trainings(LONGER, study.protocol, study.treebanks)
    pairs = [(job, replace(job, loss=CLL)) for job in jobs if job.loss == L2]
    found = {job.prior: study.compare(job, other) for job, other in pairs}
    known = {prior: gap for prior, gap in found.items() if gap is not None}
    if not found or len(known) < len(found):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(f"prior {prior:g}: {_text(gap)}" for prior, gap in known.items())
    return _decided(name, text, known.values(), evidence)


def _scaled(study: ParserRuns) -> Claim:
    name = "calibration-scaled"
    text = (
        "Beliefs at a temperature chosen on development data tell as well or better how often an arc is right (ours)."
    )
    runs = {loss: study.run(second_order(study, BUDGET, loss)) for loss in (CLL, L2)}
    known = {loss: run for loss, run in runs.items() if run is not None and "scaled" in run}
    if len(known) < len(runs):
        return Claim(name, text, None, MISSING)
    gaps = {loss: (run["calibration"]["parse_error"], run["scaled"]["parse_error"]) for loss, run in known.items()}
    evidence = "; ".join(
        f"{loss}: {before:.4f}, at temperature {known[loss]['scaled']['temperature']:.2f} {after:.4f}"
        for loss, (before, after) in gaps.items()
    )
    return Claim(name, text, all(after <= before for before, after in gaps.values()), evidence)


def _text(found: Found) -> str:
    return f"{found.gap:+.2f} ± {found.error:.2f}, p = {found.p:.2g}"


def _two_against_four(study: ParserRuns) -> Claim:
    name, text = "figure3-two-as-four", "L2 with 2 iterations is as good as CLL with 4 (English)."
    found = study.compare(second_order(study, 2, L2), second_order(study, 4, CLL))
    if found is None:
        return Claim(name, text, None, MISSING)
    return _decided(name, text, [found], f"L2 at 2 less CLL at 4: {_text(found)}")


def _gaps(study: ParserRuns, counts: Sequence[int]) -> dict[int, ParserComparison]:
    found = {n: study.compare(second_order(study, n, L2), second_order(study, n, CLL)) for n in counts}
    return {count: gap for count, gap in found.items() if gap is not None}


def _largest_at_one(study: ParserRuns) -> Claim:
    name, text = "figure3-largest-at-one", "The gain of L2 over CLL is largest with 1 iteration (English)."
    gaps = _gaps(study, study.protocol.iterations)
    if len(gaps) < max(2, len(study.protocol.iterations)):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(f"{count}: {_text(gap)}" for count, gap in gaps.items())
    return _decided(name, text, [gaps[1], *(gap for count, gap in gaps.items() if count != 1)], evidence)


def _averages(study: ParserRuns) -> dict[str, Average]:
    found = {title: study.average(factors, count) for title, factors, count in study.models}
    return {title: average for title, average in found.items() if average is not None and average.treebanks > 1}


def _over(study: ParserRuns, averages: dict[str, Average]) -> str:
    least = min(average.treebanks for average in averages.values())
    return f" (over {least} of {len(study.treebanks)} treebanks)"


def _largest_at_one_everywhere(study: ParserRuns) -> Claim:
    name, text = "table2-largest-at-one", "On average over languages the gain of L2 is largest with 1 iteration."
    averages = _averages(study)
    if len(averages) < len(study.models):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(f"{title}: {_text(average)}" for title, average in averages.items())
    return _decided(name, text, averages.values(), evidence + _over(study, averages))


def _average(study: ParserRuns) -> Claim:
    name = "table2-average"
    text = "On average over languages L2 beats CLL, for the first-order model and every number of iterations."
    averages = _averages(study)
    if len(averages) < len(study.models):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(
        f"{title}: {_text(average)}, better on {average.wins}" for title, average in averages.items()
    ) + _over(study, averages)
    return _decided(name, text, averages.values(), evidence)


def _both_against_one(study: ParserRuns, loss: str) -> tuple[ParserComparison, str] | None:
    """All factors less the one kind alone that is better on the development data."""
    english = study.protocol.english
    scores = {factors: study.uas(ParserTraining(english, factors, count, loss)) for factors, count in MODELS.items()}
    dev = {factors: study.run(ParserTraining(english, factors, BUDGET, loss)) for factors in (GRAND, SIB)}
    known = {factors: run["uas_dev"] for factors, run in dev.items() if run is not None}
    if None in scores.values() or len(known) < len(dev):
        return None
    chosen = max(known, key=known.__getitem__)
    gap = study.compare(ParserTraining(english, BOTH, BUDGET, loss), ParserTraining(english, chosen, BUDGET, loss))
    assert gap is not None
    listed = ", ".join(f"{factors} {score[0]:.2f}" for factors, score in scores.items() if score is not None)
    return gap, f"{loss}: {listed}; both less {chosen} (the better one on development data): {_text(gap)}"


def _cycles_hurt(study: ParserRuns) -> Claim:
    name = "figure4-cycles-hurt-cll"
    text = "More cycles hurt CLL: with both kinds of factors it is no better than with one of them (English)."
    found = _both_against_one(study, CLL)
    return Claim(name, text, None, MISSING) if found is None else _decided(name, text, found[:1], found[1])


def _cycles_help(study: ParserRuns) -> Claim:
    name = "figure4-cycles-not-l2"
    text = "More cycles do not hurt L2: with both kinds of factors it is as good as with one (English)."
    found = _both_against_one(study, L2)
    return Claim(name, text, None, MISSING) if found is None else _decided(name, text, found[:1], found[1])


def _grandparents(study: ParserRuns, ours: tuple[str, int], theirs: tuple[str, int]) -> ParserComparison | None:
    english = study.protocol.english
    one, two = (ParserTraining(english, GRAND, count, loss) for loss, count in (ours, theirs))
    return study.compare(one, two)


def _matches_exact(study: ParserRuns) -> Claim:
    name = "table1-matches-exact"
    text = f"L2 with {BUDGET} iterations of BP does as well as CLL with exact inference (grandparents, English)."
    found = _grandparents(study, (L2, BUDGET), (CLL, EXACT))
    if found is None:
        return Claim(name, text, None, MISSING)
    evidence = f"L2 with BP less CLL with exact inference: {_text(found)} (published +0.01)"
    return _decided(name, text, [found], evidence)


def _risk_alone(study: ParserRuns) -> Claim:
    name = "figure3-risk-alone"
    text = "Annealed risk from zero is worse than CLL and than L2 (English)."
    counts = study.protocol.risk_iterations
    found = {
        (count, loss): study.compare(second_order(study, count, AR), second_order(study, count, loss))
        for count in counts
        for loss in (CLL, L2)
    }
    known = {key: gap for key, gap in found.items() if gap is not None}
    if not counts or len(known) < len(found):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(f"{count}, less {loss}: {_text(gap)}" for (count, loss), gap in known.items())
    return _decided(name, text, known.values(), evidence)


def _risk_after(study: ParserRuns) -> Claim:
    name = "figure3-risk-after"
    text = "Annealed risk after L2 adds little: it is significantly better with one number of iterations at most."
    counts = study.protocol.risk_iterations
    found = {n: study.compare(second_order(study, n, L2_AR), second_order(study, n, L2)) for n in counts}
    known = {count: gap for count, gap in found.items() if gap is not None}
    if not counts or len(known) < len(found):
        return Claim(name, text, None, MISSING)
    evidence = "; ".join(f"{count}: {_text(gap)}" for count, gap in known.items())
    return _decided(name, text, known.values(), evidence)


def _first_order(study: ParserRuns) -> Claim:
    name = "figure4-first-order"
    text = "L2 beats CLL where inference is exact: the first-order model (English)."
    english = study.protocol.english
    found = study.compare(ParserTraining(english, UNARY, 1, L2), ParserTraining(english, UNARY, 1, CLL))
    if found is None:
        return Claim(name, text, None, MISSING)
    return _decided(name, text, [found], f"L2 less CLL: {_text(found)}")


def _exact_grandparents(study: ParserRuns) -> Claim:
    name = "table1-exact"
    text = "L2 beats CLL where inference is exact: grandparents (English)."
    found = _grandparents(study, (L2, EXACT), (CLL, EXACT))
    if found is None:
        return Claim(name, text, None, MISSING)
    return _decided(name, text, [found], f"L2 less CLL: {_text(found)} (published +0.04)")
