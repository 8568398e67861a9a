"""The UAI 2014 instances: how good are MAP answers, how tight their bounds, and are they ever below plain ICM?

In: ``DATA/uai/uai2014`` (models and evidence). Out: a JSON file that every finished instance is added to (a rerun
continues), the page ``docs/results/map.md`` made of it, and one line of JSON. Every score is computed anew from the
tables of the file before it counts.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import (
    REPOSITORY,
    Instance,
    folder_in,
    load_instance,
    load_json,
    markdown_table,
    option_parser,
    print_summary,
    progress_bar,
    save_json,
    save_text,
)
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.exact.method import Exact, TooLargeError
from loopwise.inference.gibbs.method import factor_arrays
from loopwise.inference.maximum.kernels.map_search import random_restarts, workspace
from loopwise.inference.maximum.map_search import MapSearch
from loopwise.inference.maximum.method import CLOSED, softened
from loopwise.notices import LoopwiseWarning

QUICK = ("Alchemy_11", "Grids_11", "ObjectDetection_35", "Pedigree_11", "Promedus_22", "Segmentation_14", "linkage_16")
SLACK = 1e-9  # relative: equal scores may be rounded differently
RESTARTS = 100
PROVED_LIMIT = 2.0**28  # cells: where the search has proved its answer, elimination is run only if that takes seconds

PAGE = """# MAP on the UAI 2014 instances

**{opening}**

Written by `benchmarks/map.py`; run it again to renew this page.

## Reading

{reading}

## How to read the table

- Scores and bounds are natural logarithms, computed from the tables of the file (with the evidence). *gap*: bound less
  score, relative to the larger of the two; **0** where the answer is optimal.
- **answer**: what `loopwise infer --task MAP` gives under these limits, by elimination (**e**), else by search (**s**).
- **search**: `lw.inference.MapSearch(seconds={seconds})` on its own, also where elimination finishes; it stops early
  when its gap closes. *ICM 100*: the best of 100 random starts, each improved one variable at a time; *ICM, same
  seconds*: as many random starts as fit the seconds that the search took (at least 100). A dash: no possible
  assignment found.
- *exact s*: elimination; where the search had proved its answer it was run only up to 2.7e8 cells, as a check (**–**
  beyond). *refused*: beyond the limits.
- Seconds are of one call on a new graph with compiled kernels, on a small machine that was doing other work too.

## All instances
"""

Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What results depend on: saved ones are used again only if made under the same."""

    seconds: float = 4.0
    memory_limit_gib: float = 8.0
    cell_limit: float = 2.0**31
    seed: int = 0


@dataclass(frozen=True)
class Icm(Inference):
    """Iterated conditional modes from random starts: as many as ``least``, and more until ``seconds`` are over."""

    least: int
    seconds: float
    seed: int

    def run(self, problem: Problem) -> Beliefs:
        hard = factor_arrays(problem, 1.0)
        soft = softened(hard)
        work, best = workspace(soft), np.zeros(problem.graph.variables, dtype=np.int64)
        begin, done = time.perf_counter(), 0
        while done < self.least or time.perf_counter() - begin < self.seconds:
            random_restarts(hard, soft, 0, done, 10, self.seed, best, work)
            done += 10
        status = Status("ICM", False, False, torch.tensor(done), torch.tensor(0.0))
        states = problem.like.new_zeros(problem.graph.layout.states)
        values = torch.from_numpy(best)
        return Beliefs(problem.graph, states, lambda _: states, states.sum, status, assignment=lambda: values)


def score_of(instance: Instance, assignment: np.ndarray) -> float:
    """Natural logarithm of the product of the file's cells; -inf where the assignment breaks a zero or the evidence."""
    if any(assignment[variable] != value for variable, value in instance.evidence.items()):
        return -math.inf
    cells = [float(table[tuple(assignment[list(scope)])]) for scope, table in instance.model.log_factors()]
    return math.fsum(cells) if all(cell > -math.inf for cell in cells) else -math.inf


def timed(instance: Instance, method: Inference) -> tuple[Beliefs, float, float]:
    """What a method answers on a new graph, its score and its seconds."""
    graph, tables = instance.problem()
    begin = time.perf_counter()
    beliefs = method(graph, tables, instance.evidence)
    assignment = beliefs.assignment.numpy()
    return beliefs, score_of(instance, assignment), time.perf_counter() - begin


def run_exact(instance: Instance, settings: Settings, cell_limit: float) -> Record:
    """By elimination, or why not."""
    method = Exact(settings.memory_limit_gib * 2**30, temperature=0.0, cell_limit=cell_limit)
    try:
        _, score, seconds = timed(instance, method)
    except TooLargeError as refusal:
        return {"solved": False, "refused": str(refusal)}
    return {"solved": True, "score": score, "seconds": seconds}


def run_instance(instance: Instance, settings: Settings) -> Record:
    """Search, ICM for the same time, elimination."""
    timed(instance, MapSearch(rounds=1))  # compiles what these shapes need
    beliefs, score, seconds = timed(instance, MapSearch(seconds=settings.seconds, seed=settings.seed))
    maximum = beliefs.status.maximum
    assert maximum is not None
    few, few_score, _ = timed(instance, Icm(RESTARTS, 0.0, settings.seed))
    many, many_score, _ = timed(instance, Icm(RESTARTS, seconds, settings.seed))
    record: Record = {
        "variables": instance.model.variables,
        "factors": instance.model.factors,
        "search": {
            "score": score,
            "bound": float(maximum.bound),
            "gap": float(maximum.gap),
            "optimal": bool(maximum.optimal),
            "seconds": seconds,
            "notes": list(beliefs.status.notes),
        },
        "icm": {"score": _finite(few_score), "restarts": int(few.status.sweeps)},
        "icm_same_seconds": {"score": _finite(many_score), "restarts": int(many.status.sweeps)},
    }
    limit = PROVED_LIMIT if record["search"]["optimal"] else settings.cell_limit
    record["exact"] = run_exact(instance, settings, limit)
    return record | {"answer": _answer(record), "checks": _checks(record)}


def _answer(record: Record) -> Record:
    """What ``Auto`` with these limits answers: elimination's configuration where it finishes, else the search's."""
    if record["exact"]["solved"]:
        best = record["exact"]["score"]
        return {"by": "elimination", "score": best, "bound": best, "gap": 0.0, "optimal": True}
    return {"by": "search", **{key: record["search"][key] for key in ("score", "bound", "gap", "optimal")}}


def _checks(record: Record) -> dict[str, bool]:
    search, exact = record["search"], record["exact"]
    size = max(abs(search["score"]), abs(search["bound"]))
    rivals = [record[name]["score"] for name in ("icm", "icm_same_seconds")]
    known = [search["score"], *(rival for rival in rivals if rival is not None)]
    known += [exact["score"]] if exact["solved"] else []
    proved = search["score"] >= exact["score"] - 2 * CLOSED * size if exact["solved"] and search["optimal"] else True
    return {
        "possible": math.isfinite(search["score"]),
        "bound_holds": search["bound"] >= max(known) - SLACK * size,
        "optimal_is_optimal": proved,
        "search_not_below_icm": all(rival is None or search["score"] >= rival - SLACK * size for rival in rivals),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null stands for an assignment that breaks a zero."""
    return value if math.isfinite(value) else None


# ------------------------------------------------------------------------------------------------------- the page


def page(records: Mapping[str, Record], settings: Settings) -> str:
    """``docs/results/map.md``."""
    return "\n".join([_reading(records, settings), _table(records), _notes(records)])


def _reading(records: Mapping[str, Record], settings: Settings) -> str:
    total, count = summary(records), len(records)
    failed = [name for name, record in records.items() if not all(record["checks"].values())]
    solved = [record for record in records.values() if record["exact"]["solved"]]
    found = sum(_reached(record["search"]["score"], record["exact"]["score"]) for record in solved)
    limits = f"memory limit {settings.memory_limit_gib:g} GiB, at most {settings.cell_limit:.2g} cells"
    verdict = "Every check passed" if not failed else f"Checks failed on {', '.join(failed)}; elsewhere"
    opening = f"The most probable assignment is found and proved on {total['optimal']} of {count} instances" + (
        f"; on the other {count - total['optimal']} the answer is within {100 * total['largest_gap']:.2g} % of a bound"
        " on the best."
        if total["optimal"] < count
        else "."
    )
    sentences = [
        f"Elimination ({limits}; where the search had proved its answer, {PROVED_LIMIT:.2g} cells) finished on"
        f" {len(solved)} of {count} instances: zero gap.",
        f"Search alone, at most {settings.seconds:g} seconds each, proved {total['search_optimal']} of the {count}"
        f" optimal by its own bound, and found the optimum on {found} of the {len(solved)} which elimination tells.",
        f"On {count - total['optimal']} the answer is not known to be optimal; the largest relative gap of an answer is"
        f" {total['largest_gap']:.3g}, the largest that search alone leaves {total['largest_search_gap']:.3g}.",
        f"{verdict}: every search ended with a possible assignment, every bound was at least as high as every score"
        " known, what was called optimal was, and no search ended below ICM.",
        f"ICM with as many random restarts as fit the same seconds ended below the search on {total['icm_below']}"
        f" instances, on {total['icm_impossible']} of them without a possible assignment.",
    ]
    return PAGE.format(opening=opening, reading=" ".join(sentences), seconds=f"{settings.seconds:g}")


def _reached(score: float, best: float) -> bool:
    return score >= best - SLACK * max(1.0, abs(best))


def _table(records: Mapping[str, Record]) -> str:
    header = ["instance", "variables", "answer", "score", "bound", "gap", "search score", "search bound", "search gap",
              "search s", "exact s", "ICM 100", "ICM, same seconds"]  # fmt: skip
    return markdown_table(header, [_row(name, record) for name, record in records.items()])


def _row(name: str, record: Record) -> list[str]:
    answer, search, exact = record["answer"], record["search"], record["exact"]
    return [
        name,
        str(record["variables"]),
        answer["by"][0],
        _number(answer["score"]),
        _number(answer["bound"]),
        "0" if answer["optimal"] else f"{answer['gap']:.3g}",
        _number(search["score"]),
        _number(search["bound"]),
        "0" if search["optimal"] else f"{search['gap']:.3g}",
        f"{search['seconds']:.2f}",
        f"{exact['seconds']:.1f}" if exact["solved"] else "–" if search["optimal"] else "refused",
        _number(record["icm"]["score"]),
        _number(record["icm_same_seconds"]["score"]),
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.7g}"


def _notes(records: Mapping[str, Record]) -> str:
    refused = [name for name, record in records.items() if not record["answer"]["optimal"]]
    return f"\nElimination was refused on {', '.join(refused)}.\n" if refused else ""


def summary(records: Mapping[str, Record]) -> Record:
    """The figures of the last line."""
    values = list(records.values())
    below = [record for record in values if _below(record)]
    return {
        "instances": len(values),
        "eliminated": sum(record["exact"]["solved"] for record in values),
        "optimal": sum(record["answer"]["optimal"] for record in values),
        "search_optimal": sum(record["search"]["optimal"] for record in values),
        "largest_gap": max((record["answer"]["gap"] for record in values), default=0.0),
        "largest_search_gap": max((record["search"]["gap"] for record in values), default=0.0),
        "icm_below": len(below),
        "icm_impossible": sum(record["icm_same_seconds"]["score"] is None for record in values),
        "checks_passed": all(all(record["checks"].values()) for record in values),
    }


def _below(record: Record) -> bool:
    rival, ours = record["icm_same_seconds"]["score"], record["search"]["score"]
    return rival is None or rival < ours - SLACK * abs(ours)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of search, an instance")
    parser.add_argument("--memory-limit", type=float, default=8.0, metavar="GiB", help="of elimination")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "results" / "map.md", help="the page")
    parser.add_argument(
        "--results",
        type=Path,
        default=REPOSITORY / "out" / "map.json",
        help="where finished instances are saved, and taken from under the same settings",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    settings = Settings(0.5 if options.quick else options.seconds, options.memory_limit)
    folder = folder_in(options.data, "uai", "uai2014")
    names = sorted(path.name.removesuffix(".uai.gz") for path in folder.glob("*.uai.gz"))
    names = [name for name in names if not options.quick or name in QUICK]
    saved = None if options.quick else load_json(options.results)
    if saved is None or saved["settings"] != asdict(settings):
        saved = {"settings": asdict(settings), "instances": {}}
    begin = time.perf_counter()
    with warnings.catch_warnings(), progress_bar(len(names)) as update:
        warnings.simplefilter("ignore", LoopwiseWarning)  # what does not converge is only a start
        for name in names:
            update(name)
            if name not in saved["instances"]:
                instance = load_instance(folder / f"{name}.uai.gz", folder / f"{name}.uai.evid")
                saved["instances"][name] = run_instance(instance, settings)
                if not options.quick:
                    save_json(options.results, saved)
            update(name, advance=1)
    finished = {name: saved["instances"][name] for name in names}
    if not options.quick:
        save_text(options.out, page(finished, settings))
    result = summary(finished)
    print_summary(result | {"seconds": round(time.perf_counter() - begin, 1)})
    return 0 if result["checks_passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
