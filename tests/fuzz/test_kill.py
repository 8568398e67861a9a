"""A slice of the kill test, and that it notices what it is there to notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.campaign import BrokenError, environment
from fuzz.kill import CHECKPOINT, COMMANDS, MODEL, Baseline, check_files

SEED = 19


def test_killed_trainings_go_on_to_the_same_models(tmp_path: Path) -> None:
    only = [word for name in ("fit", "tagger train:perceptron") for word in ("--only", name)]
    options = ["--count", "2", "--jobs", "1", "--seed", str(SEED), "--out", str(tmp_path)]
    run = [sys.executable, "-m", "fuzz.kill", *options, *only]
    done = subprocess.run(run, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed")


def test_files_that_are_half_there_are_noticed(tmp_path: Path) -> None:
    from loopwise.learn.files.container import write_container

    baseline = Baseline(b"whole", 1.0, 1)
    check_files(COMMANDS[0], baseline, tmp_path)
    (tmp_path / f"{MODEL}.1a.tmp").write_bytes(b"who")
    check_files(COMMANDS[0], baseline, tmp_path)
    write_container(tmp_path / CHECKPOINT, {}, {})
    check_files(COMMANDS[0], baseline, tmp_path)
    whole = (tmp_path / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BrokenError, match="checkpoint that cannot be read"):
        check_files(COMMANDS[0], baseline, tmp_path)
    (tmp_path / CHECKPOINT).unlink()
    (tmp_path / MODEL).write_bytes(b"who")
    with pytest.raises(BrokenError, match="not the whole one"):
        check_files(COMMANDS[0], baseline, tmp_path)
    (tmp_path / MODEL).unlink()
    (tmp_path / "core").write_bytes(b"")
    with pytest.raises(BrokenError, match="nobody asked for"):
        check_files(COMMANDS[0], baseline, tmp_path)
