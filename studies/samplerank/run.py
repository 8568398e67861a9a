"""Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011, *SampleRank*: which of its tables there are, what they write.

In: an order. Out: results, pictures; runs beside them. Each table replaces its own cells and leaves those of the others
alone; the pages show all there is, table after table, whichever was run first.
"""

from __future__ import annotations

from dataclasses import replace

from studies.harness.page import Page
from studies.harness.results import Deadline, Results
from studies.harness.study import Study, StudyOrder, unfinished
from studies.samplerank.coref import claims as coref_claims
from studies.samplerank.coref import constraints
from studies.samplerank.coref.tables import TABLE1
from studies.samplerank.multilabel.claims import table2_claims
from studies.samplerank.multilabel.run import TABLE2
from studies.samplerank.names import claims as names_claims
from studies.samplerank.names.tables import TABLE3

QUESTION = (
    "Can a model be trained inside the very walk that searches for its answers, from pairs of neighbouring "
    "states alone, where no message passing would do?"
)

CHANGED = {1: coref_claims.CHANGED, 3: names_claims.CHANGED}  # rules of claims, by table
TABLES = {table.name.lower(): table for table in (TABLE1, TABLE2, TABLE3)}


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Table after table."""
    done = of = 0
    notes: tuple[str, ...] = ()
    for part in order.parts:
        table, runs = TABLES[part], order.runs_folder / part.replace(" ", "")
        finished, wanted = table.run(results, replace(order.after(done), runs=runs), deadline)
        notes += unfinished(finished, wanted, f"runs of {table.name}")
        done, of = done + finished, of + wanted
    _arrange(results)
    results.note(*notes)
    return done, of


def judge(results: Results) -> None:
    """Decides anew what cells say enough of: Table 2 and violated constraints. All else needs its runs."""
    results.claim(*table2_claims(results), *constraints.judge(results))
    _arrange(results)


def _arrange(results: Results) -> None:
    """Table after table, whichever was run first."""
    results.arrange(
        lambda item: next(table.number for table in TABLES.values() if table.owns(item)),
        lambda claim: next(table.number for table in TABLES.values() if claim.startswith(f"table{table.number}-")),
    )


def steps(order: StudyOrder) -> int:
    """How many runs the tables have."""
    return sum(TABLES[part].steps(order) for part in order.parts)


def page(results: Results) -> Page:
    """What stands around the numbers of the tables there are."""
    items = results.items()
    present = [table for table in TABLES.values() if any(table.owns(item) for item in items)]
    introduction = [text for table in present for text in table.introduction(results)]
    if any(not claim.rule for claim in results.claims):
        introduction.append(
            "Claims without a rule are of a run from before 2026-11-18, when only rates, margins or caps were chosen "
            "on held-out data, and repeat what that run decided."
        )
    pictures = {name: caption for table in present for name, caption in table.pictures.items()}
    units = {item: table.units(item) for table in present for item in items if table.owns(item)}
    changed = [text for table in present for text in CHANGED.get(table.number, ())]
    return Page(STUDY.title, introduction, pictures, units, QUESTION, changed=changed)


STUDY = Study(
    "samplerank",
    "Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011, SampleRank",
    run,
    steps,
    page,
    parts=tuple(TABLES),
    usual=("table 1",),
    reads_data=lambda parts: True,
    side_by_side=False,
    judge=judge,
)
