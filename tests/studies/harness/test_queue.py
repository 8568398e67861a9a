"""Jobs are done once, in order, until time is up, here or in other processes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from studies.erma.models import SampleSizes, Size, load_model
from studies.erma.protocol import TRUE, TRUTH, ErmaJob, ErmaProtocol
from studies.erma.training import finished, run_job
from studies.harness.queue import Pace, run_jobs
from studies.harness.results import Deadline
from studies.harness.runs import read_run, write_run


@dataclass(frozen=True)
class Numbered:
    number: int

    @property
    def name(self) -> str:
        return f"job {self.number}"

    def path(self, folder: Path) -> Path:
        return folder / f"{self.number}.json"


def quiet(what: str, done: int) -> None:
    """Nobody listens."""


def test_jobs_are_done_once_and_until_time_is_up(tmp_path: Path) -> None:
    todo = [Numbered(count) for count in range(3)]
    ran: list[Numbered] = []
    told: list[tuple[str, int]] = []

    def run(job: Numbered) -> None:
        ran.append(job)
        for each in {job, todo[2]}:  # the last is a by-product of any
            write_run(each.path(tmp_path), {"by": job.number})

    class Soon(Deadline):
        @property
        def passed(self) -> bool:
            return len(ran) >= 1

    assert run_jobs(todo, tmp_path, run, Soon(None), lambda what, done: told.append((what, done))) == 2
    assert ran == todo[:1] and told[0] == ("job 0", 0) and told[-1][1] == 2
    assert run_jobs(todo, tmp_path, run, Deadline(None), quiet) == 3 and ran == todo[:2]
    assert read_run(todo[1].path(tmp_path)) == {"by": 1} and read_run(Numbered(9).path(tmp_path)) is None
    assert run_jobs(todo, tmp_path, lambda job: pytest.fail("ran again"), Deadline(None), quiet) == 3


def test_a_job_that_fails_loses_no_other(tmp_path: Path) -> None:
    todo = [Numbered(count) for count in range(3)]

    def run(job: Numbered) -> None:
        if job.number == 1:
            raise ValueError("job 1 cannot be done")
        write_run(job.path(tmp_path), {})

    with pytest.raises(ValueError, match="job 1"):
        run_jobs(todo, tmp_path, run, Deadline(None), quiet)
    assert [job.path(tmp_path).exists() for job in todo] == [True, False, False]


@pytest.mark.usefixtures("literal_sizes")  # the same kernels in all processes
def test_processes_leave_the_same_runs(tmp_path: Path) -> None:
    protocol = ErmaProtocol(sizes=(Size(6, 8), Size(7, 9)), sampling=SampleSizes(20, 20, 10))
    todo = [ErmaJob(size, TRUTH, TRUE) for size in protocol.sizes]
    found = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        for size in protocol.sizes:
            load_model(folder, size, 0, protocol.sampling)
        run = partial(run_job, protocol=protocol, folder=folder, seed=0)
        assert run_jobs(todo, folder, run, Deadline(None), quiet, workers=workers) == 2
        runs = [finished(job, folder) for job in todo]
        found.append([None if run is None else run.loss("MSE") for run in runs])
    assert found[0] == found[1] and None not in found[0]


def test_time_left_is_shared_by_workers() -> None:
    pace = Pace(30.0, workers=2)
    assert "unknown" in str(pace)
    pace.done(10.0, 300.0)
    assert str(pace) == "about 5 min left"  # two of 300 s each, on two
