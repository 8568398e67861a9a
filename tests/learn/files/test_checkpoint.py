"""Checkpoints: a run that was stopped anywhere ends with the same weights, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.formats import FormatError
from loopwise.learn import Epoch, Examples, History, System, fit, hybrid, staged
from loopwise.learn.files.checkpoint import read_checkpoint, write_checkpoint
from loopwise.learn.files.container import read_container, write_container

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
GRAPH = lw.random_mrf(8, 14, seed=3, unary=True)
ROLES = [INPUT, OUTPUT, HIDDEN, INPUT, OUTPUT, HIDDEN, OUTPUT, OUTPUT]
FEW = lw.BP(iterations=3, tolerance=0)


def data(count: int = 24, seed: int = 0) -> Examples:
    return Examples.of(GRAPH, np.random.default_rng(seed).integers(0, 2, (count, 8)), ROLES)


class Noisy(nn.Module):
    """Potentials with dropout: random numbers that are not fit's own."""

    def __init__(self) -> None:
        super().__init__()
        self.graph, self.inner = GRAPH, lw.TablePotentials.random(GRAPH, seed=5, scale=0.3)
        self.dropout = nn.Dropout(0.3)

    def forward(self) -> dict[str, Tensor]:
        return {name: self.dropout(table) for name, table in self.inner().items()}


class StopError(Exception):
    pass


def fresh(decoder: lw.decode.BeliefDecoder | None = None, noisy: bool = False) -> System:
    potentials = Noisy() if noisy else lw.TablePotentials.random(GRAPH, seed=5, scale=0.3)
    return System(potentials, FEW, decoder)


def state(system: System) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in system.state_dict().items()}


def same(one: History, other: History) -> bool:
    """Equal but for the time taken."""
    strip = [[{**entry, "seconds": 0} for entry in history.to_json()["epochs"]] for history in (one, other)]
    return strip[0] == strip[1] and (one.best, one.restart, one.ended) == (other.best, other.restart, other.ended)


RUNS = {
    "smd": ((None, False), lw.loss.MSE(), {"epochs": 3, "optimizer": lw.optim.SMD}),
    "a rate that is found": ((None, True), lw.loss.MSE(), {"epochs": 3}),
    "a rate that is found, stages and restarts": (
        (None, False),
        staged(lw.loss.MSE(), epochs=1),
        {"epochs": 3, "restarts": 2, "start": 0.5},
    ),
    "a rate that is found, a schedule": (
        (None, False),
        lw.loss.MSE(),
        {"epochs": 3, "schedule": lw.optim.inverse_square_root},
    ),
    "dropout and adam": (
        (None, True),
        lw.loss.MSE(),
        {"epochs": 3, "optimizer": lambda p: torch.optim.Adam(p, lr=0.1)},
    ),
    "stages, threshold, dev": (
        (lw.decode.ApproximateF(temperature=lw.decode.Geometric(steps=4)), False),
        staged(hybrid(lw.loss.F1()), epochs=1),
        {"epochs": 5, "dev": data(16, 1), "optimizer": lambda p: torch.optim.Adam(p, lr=0.1)},
    ),
    "restarts and a schedule": (
        (None, False),
        lw.loss.MSE(),
        {
            "epochs": 2,
            "restarts": 2,
            "start": 0.5,
            "optimizer": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
            "schedule": lw.optim.inverse_square_root,
        },
    ),
    "adagrad": (
        (None, False),
        lw.loss.MSE(),
        {"epochs": 3, "optimizer": lambda p: lw.optim.AdaGradCOMID(p, 0.1), "prior": lw.prior.L1(0.01)},
    ),
    "lbfgs": ((None, False), lw.loss.MSE(), {"epochs": 2, "optimizer": lambda p: lw.optim.LBFGS(p, iterations=3)}),
    "torch lbfgs": (
        (None, False),
        lw.loss.MSE(),
        {"epochs": 3, "optimizer": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=2)},
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_stopped_at_any_epoch_ends_the_same(name: str, tmp_path: Path) -> None:
    made, goal, options = RUNS[name]
    train, whole, path = data(), fresh(*made), tmp_path / "run"
    expected = fit(whole, train, goal, batch=8, **options)  # type: ignore[arg-type]
    total = len(expected.epochs)
    calls = 0

    def stop(epoch: Epoch) -> None:
        nonlocal calls
        calls += 1
        raise StopError

    for _ in range(total):  # each attempt does one epoch, in a system made anew
        with pytest.raises(StopError):
            fit(fresh(*made), train, goal, batch=8, checkpoint=path, callback=stop, **options)  # type: ignore[arg-type]
    resumed = fresh(*made)
    history = fit(resumed, train, goal, batch=8, checkpoint=path, callback=stop, **options)  # type: ignore[arg-type]
    assert calls == total  # nothing was left to do
    assert same(history, expected)
    assert all(torch.equal(tensor, state(resumed)[key]) for key, tensor in state(whole).items())


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from test_checkpoint import slow_run
slow_run(sys.argv[1], callback=lambda epoch: print(flush=True))
"""


def slow_run(path: object = None, **options: object) -> System:
    """A run of some seconds in plain torch operations, which a process starts with at once."""
    inference = lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference())
    system = System(lw.TablePotentials.random(GRAPH, seed=5, scale=0.3), inference)
    fit(
        system, data(), lw.loss.MSE(), optimizer=lambda p: torch.optim.Adam(p, lr=0.01), batch=8, epochs=30,
        checkpoint=path, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    return system


def test_a_process_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed in the middle of whatever it does, twice; then another one finishes."""
    path = tmp_path / "run"
    for wait in (0.0, 0.023):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None and child.stdout.readline()  # one more epoch is done
        time.sleep(wait)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    done: list[int] = []
    ended = state(slow_run(path, callback=lambda epoch: done.append(epoch.number)))
    assert 2 < done[0] <= 30 and done[-1] == 30  # neither finished nor from the start
    assert all(torch.equal(tensor, ended[key]) for key, tensor in state(slow_run()).items())


def test_a_finished_run_can_be_given_more_epochs(tmp_path: Path) -> None:
    path, short, whole = tmp_path / "run", fresh(), fresh()
    options = {"optimizer": lw.optim.SMD, "batch": 8}
    fit(short, data(), lw.loss.MSE(), epochs=2, checkpoint=path, **options)  # type: ignore[arg-type]
    history = fit(short, data(), lw.loss.MSE(), epochs=4, checkpoint=path, **options)  # type: ignore[arg-type]
    fit(whole, data(), lw.loss.MSE(), epochs=4, **options)  # type: ignore[arg-type]
    assert len(history) == 4
    assert all(torch.equal(tensor, state(short)[key]) for key, tensor in state(whole).items())


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(fresh(), data(), lw.loss.MSE(), batch=8, epochs=1, checkpoint=path)
    before = path.read_bytes()
    other = lw.random_mrf(8, 13, seed=3, unary=True)
    elsewhere = System(lw.TablePotentials.random(other, seed=0), FEW)
    cases = {
        "training data was 24 examples": (fresh(), data(16), lw.loss.MSE(), {}),
        "training data": (fresh(), data(24, seed=9), lw.loss.MSE(), {}),
        "goal was .*MSE": (fresh(), data(), lw.loss.L1(), {}),
        "decoder was Identity": (fresh(lw.decode.SoftArgmax()), data(), lw.loss.MSE(), {}),
        "graph was": (elsewhere, Examples.of(other, data().values, ROLES), lw.loss.MSE(), {}),
        "inference was BP": (System(fresh().potentials, lw.BP(iterations=4, tolerance=0)), data(), lw.loss.MSE(), {}),
        "optimizer was DenseAdam": (fresh(), data(), lw.loss.MSE(), {"optimizer": torch.optim.Adam}),
        "seed was 0, now it is 1": (fresh(), data(), lw.loss.MSE(), {"seed": 1}),
    }
    for message, (system, examples, goal, options) in cases.items():
        start = state(system)
        with pytest.raises(FormatError, match=f"(?s)of another run: its {message}.*give another path") as problem:
            fit(system, examples, goal, batch=8, epochs=1, checkpoint=path, **options)  # type: ignore[arg-type]
        assert "\n" not in str(problem.value)
        assert all(torch.equal(tensor, state(system)[key]) for key, tensor in start.items())
    with pytest.raises(FormatError, match="its epochs was 1, now it is 2"):  # over which the rate falls to zero
        fit(fresh(), data(), lw.loss.MSE(), batch=8, epochs=2, checkpoint=path)
    assert path.read_bytes() == before


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "run"
    fresh().save(path)
    with pytest.raises(FormatError, match="no checkpoint of a training run but another file"):
        fit(fresh(), data(), lw.loss.MSE(), checkpoint=path)
    path.write_text("epoch 3")
    with pytest.raises(FormatError):
        fit(fresh(), data(), lw.loss.MSE(), checkpoint=path)
    fit(fresh(), data(), lw.loss.MSE(), batch=8, epochs=1, checkpoint=tmp_path / "good")
    path.write_bytes((tmp_path / "good").read_bytes()[:-40])
    with pytest.raises(FormatError, match="cut off"):
        fit(fresh(), data(), lw.loss.MSE(), checkpoint=path)
    with pytest.raises(FileNotFoundError):
        fit(fresh(), data(), lw.loss.MSE(), batch=8, epochs=1, checkpoint=tmp_path / "nowhere" / "run")


def test_a_damaged_state_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    state = {"epoch": 3, "rate": 0.5, "weights": torch.arange(4.0), "names": ["a"]}
    write_checkpoint(path, {"goal": "x"}, state)
    tensors, description = read_container(path)
    weights = tensors["state/weights"]
    other = [{"state/weights": weights + 1}, {"state/weights": weights.double()}, {"state/weights": weights[:2]}, {}]
    for damaged in other:
        write_container(path, damaged, description)
        with pytest.raises(FormatError, match="run: the state in the checkpoint is damaged"):
            read_checkpoint(path, {"goal": "x"})
    text = json.dumps(description["state"])
    for old, new in (("3", "4"), ("0.5", '"x"'), ('"a"', "null"), ('"epoch"', '"epochs"'), ("mapping", "tuple")):
        write_container(path, tensors, {**description, "state": json.loads(text.replace(old, new))})
        with pytest.raises(FormatError, match="damaged"):
            read_checkpoint(path, {"goal": "x"})
    description.pop("checksum")  # as checkpoints were before they had one
    write_container(path, tensors, description)
    assert read_checkpoint(path, {"goal": "x"})["epoch"] == 3


def test_the_last_good_checkpoint_survives_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    path, seen = tmp_path / "run", []
    system = fresh()

    class Failing(lw.loss.MSE):
        def __call__(self, prediction, targets):  # type: ignore[no-untyped-def]
            value = super().__call__(prediction, targets)
            return value * torch.nan if len(seen) == 2 else value

    def note(epoch: Epoch) -> None:
        seen.append(path.read_bytes())

    with pytest.raises(ValueError, match="the loss is nan in epoch 3, batch 1 of 3"):
        fit(system, data(), Failing(), batch=8, epochs=5, checkpoint=path, callback=note)
    assert path.read_bytes() == seen[1]


def test_what_can_be_kept_comes_back(tmp_path: Path) -> None:
    tensor = torch.arange(3, dtype=torch.int32)
    kept = {"a": [1, 2.5, float("inf"), None, True], 3: (tensor, {"deep": "text"}), "empty": {}}
    write_checkpoint(tmp_path / "file", {"goal": "x"}, kept)
    found = read_checkpoint(tmp_path / "file", {"goal": "x"})
    assert found["a"] == kept["a"] and found["empty"] == {} and found[3][1] == {"deep": "text"}
    assert torch.equal(found[3][0], tensor) and found[3][0].dtype == tensor.dtype
    assert read_checkpoint(tmp_path / "absent", {}) is None
    with pytest.raises(ValueError, match="cannot hold odd, which is of class object"):
        write_checkpoint(tmp_path / "file", {}, {"odd": object()})
