"""What is claimed of entity resolution, by rules of which earlier tables, not these runs, were known; and the cells.

In: finished runs. Out: claims, cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from studies.entities.protocol import AVERAGE, ENTITIES, IDS, NONE, OURS, EntitiesProtocol, EntityJob, jobs
from studies.harness.claims import MISSING
from studies.harness.results import Cell, Claim
from studies.harness.statistics import mean_and_error

MEASURES = {"pairwise_f1": "pairwise F1", "b_cubed": "B-cubed F1"}
ALSO = {"precision": "pairwise precision", "recall": "pairwise recall", "cluster_f1": "cluster F1"}
TIE = 0.002  # by which two scores do not differ
GOLDENMATCH = 0.991  # its published pairwise F1 on Febrl 3
RULES = {
    "best": "Best: on a table, with each kind of labels, our mean over draws is at least that of the best other tool, "
    f"less two standard errors of the paired difference over draws and {TIE}.",
    "entities": "Model of entities: on each table with one table's clusters, trained on ids, the mean of B-cubed and "
    f"pairwise F1 that it reaches is at least that of average linkage with its best threshold, less {TIE}; both are "
    "chosen on held-out labels of the training half.",
    "harm": f"Labels do no harm: with 20 pairs the mean of both F1 is at least that without labels, less {TIE}.",
    "febrl3": f"Febrl 3: our pairwise F1 is above {GOLDENMATCH} (published for goldenmatch) with each kind of labels.",
}


@dataclass(frozen=True)
class EntityRun:
    """A finished run; a run of ours may have scores of several ways."""

    job: EntityJob
    told: dict[str, Any]

    def score(self, tool: str, measure: str) -> float | None:
        if "failed" in self.told or tool not in self.told["scores"]:
            return None
        return float(self.told["scores"][tool][measure])


def draws(found: Sequence[EntityRun], problem: str, setting: str, tool: str, measure: str) -> dict[int, float]:
    """The score of each draw."""
    chosen = (one for one in found if (one.job.problem, one.job.setting) == (problem, setting))
    scores = {one.job.draw: one.score(tool, measure) for one in chosen if tool.startswith(one.job.tool)}
    return {draw: score for draw, score in scores.items() if score is not None}


def _rows(found: Sequence[EntityRun]) -> dict[tuple[str, str], None]:
    order = {name: place for place, name in enumerate(dict.fromkeys(one.job.problem for one in found))}
    pairs = {(one.job.problem, one.job.setting) for one in found}
    settings = {name: place for place, name in enumerate((NONE, "20", "100", "500", IDS))}
    return dict.fromkeys(sorted(pairs, key=lambda pair: (order[pair[0]], settings[pair[1]])))


def row_name(problem: str, setting: str) -> str:
    told = {NONE: "no labels", IDS: "half of the ids"}.get(setting, f"{setting} pairs")
    return f"{problem}, {told}"


def cells_of(found: Sequence[EntityRun]) -> Iterator[Cell]:
    """All numbers of the page."""
    tools = list(dict.fromkeys(one.job.tool for one in sorted(found, key=lambda one: one.job.tool != OURS)))
    for measure, item in (MEASURES | ALSO).items():
        shown = [*tools, AVERAGE, ENTITIES] if measure in MEASURES else tools
        for problem, setting in _rows(found):
            for tool in shown:
                scores = list(draws(found, problem, setting, tool, measure).values())
                if scores:
                    mean, error = mean_and_error(scores)
                    yield Cell(item, row_name(problem, setting), tool, mean, error, len(scores))
    for key, item in (("seconds", "seconds"), ("peak_mb", "peak MB")):
        for problem, setting in _rows(found):
            for tool in tools:
                own = [
                    float(one.told[key])
                    for one in found
                    if (one.job.problem, one.job.setting, one.job.tool) == (problem, setting, tool) and key in one.told
                ]
                if own:
                    yield Cell(item, row_name(problem, setting), tool, mean_and_error(own)[0], None, len(own))


def claims_of(found: Sequence[EntityRun], protocol: EntitiesProtocol) -> list[Claim]:
    """Undecided until each kind of labels has a draw of every tool, be it one that failed."""
    claims = []
    for problem in protocol.problems:
        for measure, name in MEASURES.items():
            claims.append(_best(found, protocol, problem, measure, name))
    claims.append(_entities(found, protocol))
    claims.append(_harm(found, protocol))
    if "febrl3" in protocol.problems:
        scores = [draws(found, "febrl3", setting, OURS, "pairwise_f1") for setting in protocol.settings]
        values = [min(own.values()) for own in scores if own]
        holds = None if len(values) < len(protocol.settings) else min(values) > GOLDENMATCH
        claims.append(Claim("febrl3", RULES["febrl3"], holds, f"least {min(values):.4f}" if values else MISSING))
    return claims


def _best(found: Sequence[EntityRun], protocol: EntitiesProtocol, problem: str, measure: str, name: str) -> Claim:
    wanted = {(job.setting, job.tool) for job in jobs(protocol) if job.problem == problem}
    missing = bool(wanted - {(one.job.setting, one.job.tool) for one in found if one.job.problem == problem})
    holds, evidence = True, []
    for setting in protocol.settings:
        ours = draws(found, problem, setting, OURS, measure)
        if not ours:
            missing = True
            continue
        line = f"{row_name(problem, setting)}: {mean_and_error(list(ours.values()))[0]:.3f}"
        for tool in protocol.tools:
            theirs = draws(found, problem, setting, tool, measure)
            both = [(ours[draw], theirs[draw]) for draw in ours if draw in theirs]
            if tool == OURS or not both:
                continue
            gap, error = mean_and_error([one - other for one, other in both])
            holds = holds and gap >= -2 * (error or 0.0) - TIE
            line += f", {tool} {mean_and_error([other for _, other in both])[0]:.3f}"
        evidence.append(line)
    text = f"{problem}, {name}. {RULES['best']}"
    decided = False if not holds else None if missing else True
    return Claim(f"best-{problem}-{measure}", text, decided, "; ".join(evidence) or MISSING)


def _both(found: Sequence[EntityRun], problem: str, setting: str, tool: str) -> list[float]:
    parts = [draws(found, problem, setting, tool, measure) for measure in MEASURES]
    return [(parts[0][draw] + parts[1][draw]) / 2 for draw in parts[0] if draw in parts[1]]


def _entities(found: Sequence[EntityRun], protocol: EntitiesProtocol) -> Claim:
    holds, evidence = [], []
    for problem in protocol.problems:
        pair = [_both(found, problem, IDS, tool) for tool in (ENTITIES, AVERAGE)]
        if all(pair):
            model, average = (mean_and_error(values)[0] for values in pair)
            holds.append(model >= average - TIE)
            stayed = ", where it stayed" if pair[0] == pair[1] else ""
            evidence.append(f"{problem}: {model:.4f}, average linkage {average:.4f}{stayed}")
    wanted = [problem for problem in protocol.problems if problem != "abt-buy"]
    decided = False if False in holds else True if len(holds) >= len(wanted) else None
    return Claim("entities", RULES["entities"], decided, "; ".join(evidence) or MISSING)


def _harm(found: Sequence[EntityRun], protocol: EntitiesProtocol) -> Claim:
    holds, evidence = [], []
    for problem in protocol.problems:
        few, none = (_both(found, problem, setting, OURS) for setting in ("20", NONE))
        if few and none:
            holds.append(mean_and_error(few)[0] >= none[0] - TIE)
            evidence.append(f"{problem}: {mean_and_error(few)[0]:.3f}, without {none[0]:.3f}")
    decided = False if False in holds else True if len(holds) >= len(protocol.problems) else None
    return Claim("harm", RULES["harm"], decided, "; ".join(evidence) or MISSING)
