"""Jobs, sweeps and walks on the workers of a Dask cluster: the same results; lost workers lose nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise.learn import sweep
from loopwise.notices import LoopwiseWarning
from oracles.walk_cases import chain_documents, chain_model
from studies.harness.queue import run_jobs
from studies.harness.results import Deadline

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
joblib = pytest.importorskip("joblib", reason="joblib is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two workers, processes of their own, on the loopback."""
    import dask

    settings = {"distributed.scheduler.allowed-failures": 1}
    here = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *([before] if before else [])])
    try:
        with (
            dask.config.set(settings),
            distributed.LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as local,
        ):
            yield local.scheduler_address
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def name(self) -> str:
        return f"square of {self.number}"

    def path(self, folder: Path) -> Path:
        return folder / f"{self.number}.txt"


def write_square(folder: str, faulty: bool, job: Square) -> None:
    if faulty and job.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, f"{job.number}.txt").write_text(str(job.number**2))


def write_nothing(job: Square) -> None:
    pass


def test_jobs_of_a_study(cluster: str, tmp_path: Path) -> None:
    """One that kills each worker that takes it is named and left, and the others are done; without its fault the same
    call does it, and no other again."""
    todo, told = [Square(number) for number in range(6)], []

    def run(faulty: bool) -> int:
        once = partial(write_square, str(tmp_path), faulty)
        return run_jobs(todo, tmp_path, once, Deadline(None), lambda what, done: told.append(what), workers=cluster)

    with pytest.warns(LoopwiseWarning) as said:
        assert run(faulty=True) == 5
    assert [str(one.message) for one in said if one.category is LoopwiseWarning] == [
        "lost with the workers that ran them, and left for another time: square of 3; the same command again tries "
        "only what is missing"
    ]
    assert not todo[3].path(tmp_path).exists()
    assert all(job.path(tmp_path).read_text() == str(job.number**2) for job in todo if job.number != 3)
    told.clear()
    assert run(faulty=False) == 6 and todo[3].path(tmp_path).read_text() == "9"
    assert {what.partition(":")[0] for what in told} == {"square of 3"}


def test_a_file_that_does_not_arrive(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="square of 9 was done, but left no file"):
        run_jobs([Square(9)], tmp_path, write_nothing, Deadline(None), lambda *what: None, workers=cluster)


def test_nobody_at_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.harness.cluster.CONNECTING", 0.5)
    with pytest.raises(ValueError, match="no Dask scheduler answers at 'tcp:"):
        run_jobs([Square(1)], tmp_path, write_nothing, Deadline(None), lambda *what: None, workers="tcp://127.0.0.1:9")


def test_sweeps_and_walks(cluster: str) -> None:
    learners = [lw.walk.SampleRank(chain_model(), lw.walk.GibbsChange(), metric=lw.metric.Accuracy()) for _ in range(2)]
    documents = chain_documents((3, 5, 4))
    learners[0].fit(documents, steps=20, epochs=2, shards=2)
    with distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        assert sweep(pow, [{"base": base, "exp": 2} for base in range(4)], jobs=2) == [0, 1, 4, 9]
        learners[1].fit(documents, steps=20, epochs=2, shards=2, jobs=2)
    np.testing.assert_array_equal(learners[0].raw, learners[1].raw)
