"""Several processes train one system: as one would, whatever the optimiser; and what goes wrong is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loopwise.learn.distributed import ALONE, Team, team
from oracles import distributed_cases

EQUAL = (
    "adam", "smd", "lbfgs", "weighted", "weighted_pool", "weighted_likelihood", "adagrad", "template", "restarts",
    "walk",
)  # fmt: skip
REFUSED = {
    "other_data": "ranks 0 and 1 differ in the training data; give each the same program, options and data",
    "other_epochs": "ranks 0 and 1 differ in the epochs",
    "fails_on_one": "rank 1 of 2 stopped the training: example 17 is impossible",
    "first_fails": "no/folder",
    "wrapped": r"give the system, not DistributedDataParallel around it \(its attribute module\)",
}

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")


TESTS = Path(distributed_cases.__file__).parents[1]


def run_together(folder: Path, *names: str, processes: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Two processes on this machine, as torchrun starts them; they meet at a free port of the loopback."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    env |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    command = [sys.executable, distributed_cases.__file__, str(folder), *names]
    begun = [
        subprocess.Popen(command, env={**env, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    done = []
    for process in begun:
        try:
            _, said = process.communicate(timeout=900)  # kernels may have to be compiled first
        finally:
            process.kill()
        done.append(subprocess.CompletedProcess(command, process.returncode, "", said))
    return done


def found(folder: Path, name: str, rank: int) -> dict[str, Any]:
    told: dict[str, Any] = torch.load(folder / f"{name}.{rank}.pt")
    return told


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all cases gave in one process. It comes first: of two each would compile all kernels for itself."""
    return {name: distributed_cases.CASES[name](tmp_path_factory.mktemp(name)) for name in EQUAL}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory, alone: dict[str, Any]) -> Path:
    """What all cases gave in two processes."""
    folder = tmp_path_factory.mktemp("together")
    done = run_together(folder, *EQUAL, *REFUSED, "own_training")
    assert [process.returncode for process in done] == [0, 0], done[0].stderr + done[1].stderr
    return folder


@pytest.mark.parametrize("name", EQUAL)
def test_two_processes_train_as_one(together: Path, alone: dict[str, Any], name: str) -> None:
    first, second = found(together, name, 0), found(together, name, 1)
    assert "problem" not in first, first["problem"]
    for key, weights in alone[name]["weights"].items():
        assert torch.equal(first["weights"][key], second["weights"][key])
        torch.testing.assert_close(first["weights"][key], weights, rtol=1e-9, atol=1e-11)
    for numbers in ("losses", "dev"):
        if None not in alone[name].get(numbers, [None]):
            assert first[numbers] == pytest.approx(alone[name][numbers], rel=1e-9)
            assert first[numbers] == second[numbers]


def test_under_torchrun_itself(tmp_path: Path, alone: dict[str, Any]) -> None:
    """The command as users give it; examples have weights. Threads that outlived the group made exits abort."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    env |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, distributed_cases.__file__, str(tmp_path), "weighted", "left"]
    subprocess.run(command, env=env, check=True, timeout=900)
    for rank in range(2):
        for key, weights in found(tmp_path, "weighted", rank)["weights"].items():
            torch.testing.assert_close(weights, alone["weighted"]["weights"][key], rtol=1e-9, atol=1e-11)
        assert not [name for name in found(tmp_path, "left", rank)["threads"] if "gloo" in name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_goes_wrong_is_said_by_all(together: Path, name: str) -> None:
    import re

    problems = [found(together, name, rank)["problem"] for rank in range(2)]
    assert all(re.search(REFUSED[name].replace("rank 1 of 2 stopped the training: ", ""), each) for each in problems)
    assert name != "fails_on_one" or re.search(REFUSED[name], problems[0])


def test_trainings_apart(together: Path) -> None:
    weights = [found(together, "own_training", rank)["weights"] for rank in range(2)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_killed_process_is_an_error_and_the_run_goes_on(tmp_path: Path) -> None:
    done = run_together(tmp_path, "resumed")
    assert done[1].returncode == 9
    assert "rank 0 of 2 cannot reach the others any more" in found(tmp_path, "resumed", 0)["problem"]
    done = run_together(tmp_path, "resumed")
    assert [process.returncode for process in done] == [0, 0], done[0].stderr + done[1].stderr
    first, second = found(tmp_path, "resumed", 0), found(tmp_path, "resumed", 1)
    assert first["seen"] == [3, 4] and second["seen"] == [] and first["losses"] == second["losses"]
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "killed").touch()
    alone = distributed_cases.CASES["resumed"](tmp_path / "alone")
    for key, weights in alone["weights"].items():
        torch.testing.assert_close(first["weights"][key], weights, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_all_rows_once_in_order(size: int) -> None:
    rows, sizes = np.arange(11)[::-1].copy(), np.arange(100, 111) ** 3
    for given in (None, sizes):
        shares = [Team(rank, size).share(rows, given) for rank in range(size)]
        assert np.concatenate(shares).tolist() == rows.tolist()
    counts = [len(Team(rank, size).share(rows)) for rank in range(size)]
    assert max(counts) - min(counts) <= 1
    assert sum(len(Team(rank, size).share(rows[:0])) for rank in range(size)) == 0
    assert sum(len(Team(rank, size).share(rows[:1])) for rank in range(size)) == 1


def test_without_others_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert team() is ALONE and ALONE.gathered(3) == [3]
