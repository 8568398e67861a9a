"""What a study is: what of it may be asked for, how it is run, what stands on its page.

In: a :class:`StudyOrder`. Out: ``results.json``, pictures, ``page.html`` and ``index.md`` in the order's folder;
finished runs beside them, from which a study that was stopped goes on. Each paper has one :class:`Study`, in its
``run.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from loopwise.compiled.threads import available_threads
from studies.harness.packed import PACK, pack_runs, unpack_runs
from studies.harness.page import Page, write_pages
from studies.harness.queue import Tell, Workers
from studies.harness.results import FULL, QUICK, Deadline, Results
from studies.harness.runs import RUNS


@dataclass(frozen=True)
class StudyOrder:
    """What is asked of a study.

    ``parts``: such as "table 3" or "figure 1", none for the usual ones. ``runs``: where finished runs are kept, by
    default in a subfolder. ``workers``: runs at a time, by default one a core, or the address of a Dask scheduler.
    """

    folder: Path
    mode: str = QUICK
    seed: int = 0
    minutes: float | None = None
    parts: tuple[str, ...] = ()
    data: Path | None = None
    runs: Path | None = None
    workers: Workers | None = None
    tell: Tell = lambda what, done: None

    @property
    def runs_folder(self) -> Path:
        return self.runs or self.folder / RUNS

    @property
    def pack(self) -> Path | None:
        """The file that keeps small runs beside the results, where their folder is somewhere else and may go."""
        return None if self.runs is None or self.runs.is_relative_to(self.folder) else self.folder / PACK

    @property
    def processes(self) -> Workers:
        return self.workers or available_threads()

    @property
    def keep(self) -> bool:
        """Whether runs of another protocol or seed must not be deleted: full ones took hours."""
        return self.mode == FULL

    def after(self, done: int) -> StudyOrder:
        """The same for what comes after ``done`` runs of something else."""
        return replace(self, tell=lambda what, more: self.tell(what, done + more))


class Runner(Protocol):
    """Runs what is left of the parts of an order until ``deadline``; how many of how many runs are finished.

    Cells, claims, notes and pictures go to ``results`` and its folder.
    """

    def __call__(self, results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Study:
    """The study of one paper.

    ``parts`` may be asked for; where nothing is, ``usual`` are run. ``reads_data``: whether some parts read the data
    collection. ``side_by_side``: whether runs may share the machine; where they are timed they may not. ``judge``:
    decides the claims of results anew, as far as these say enough without the runs behind them.
    """

    name: str
    title: str
    run: Runner
    steps: Callable[[StudyOrder], int]
    page: Callable[[Results], Page]
    parts: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    reads_data: Callable[[tuple[str, ...]], bool] = lambda parts: False
    side_by_side: bool = True
    judge: Callable[[Results], None] | None = None

    def chosen(self, order: StudyOrder) -> StudyOrder:
        """The order with the parts it leaves open; an error if it asks for one that there is not."""
        wrong = next((part for part in order.parts if part not in self.parts), None)
        if wrong is not None:
            known = ", ".join(f"--{part}" for part in self.parts) or "only the whole"
            raise ValueError(f"--{wrong} of {self.name} is not reproduced; there is {known}")
        return replace(order, parts=tuple(dict.fromkeys(order.parts)) or self.usual)


def reproduce(study: Study, order: StudyOrder) -> tuple[Results, bool]:
    """Runs what is left of what was asked for, at most for its minutes, and writes everything; whether complete."""
    order = study.chosen(order)
    results = Results.open(order.folder, study.name, order.mode, order.seed)
    if order.pack is not None:
        unpack_runs(order.pack, order.runs_folder)
    done, of = study.run(results, order, Deadline(order.minutes))
    if order.pack is not None:
        pack_runs(order.runs_folder, order.pack)
    write_pages(study.page(results), results)
    return results, done == of


def rebuild_pages(study: Study, folder: Path) -> Results:
    """Writes the pages of ``folder`` anew from its results and pictures."""
    results = Results.of_folder(folder, study.name)
    write_pages(study.page(results), results)
    return results


def judge_again(study: Study, folder: Path) -> Results:
    """Decides the claims of ``folder`` anew from its results, by the rules as they are, and writes its pages."""
    if study.judge is None:
        raise ValueError(f"claims of {study.name} are decided by its runs alone; run it again, without --judge")
    results = Results.of_folder(folder, study.name)
    study.judge(results)
    write_pages(study.page(results), results)
    return results


def unfinished(done: int, of: int, what: str = "runs") -> tuple[str, ...]:
    """The note on what is missing; none if nothing is."""
    return (f"Not finished: {done} of {of} {what} are done.",) if done < of else ()
