"""A slice of the mutation fuzzer, and that it notices what it is there to notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.campaign import Tally, environment
from fuzz.mutate import Judge, go_through, make_kinds, replay
from fuzz.mutations import spoil_text
from fuzz.readers import UAI, Kind, reader_kinds
from loopwise.formats.errors import FormatError

SEED = 19
READ, LOADED = 2500, 400  # cases


def test_seeds_are_valid_and_hold_together(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for kind in reader_kinds(tmp_path):
        for number, seed in enumerate(kind.seeds):
            path = scratch / f"case{kind.suffix}"
            path.write_bytes(seed)
            try:
                kind.check(kind.read(path), scratch)
            except FormatError as problem:
                pytest.fail(f"seed {number} of {kind.name}: {problem}")


def test_no_spoilt_file_breaks_a_reader(tmp_path: Path) -> None:
    tally = Tally("mutate", SEED, tmp_path / "out", quiet=True)
    go_through(Judge(make_kinds(tmp_path, None, models=False), tmp_path / "cases", SEED), range(READ), tally)
    assert not tally.failed, tally.failed
    assert tally.passed == READ


def test_no_spoilt_model_breaks_a_loader(tmp_path: Path) -> None:
    kinds = [kind for kind in make_kinds(tmp_path, None) if kind.lenient or kind.suffix == ".checkpoint"]
    tally = Tally("mutate", SEED, tmp_path / "out", quiet=True)
    go_through(Judge(kinds, tmp_path / "cases", SEED), range(LOADED), tally)
    assert not tally.failed, tally.failed
    assert tally.passed == LOADED and len(tally.kinds) == len(kinds)


class RawError(FormatError):
    """One that does not keep its message to a line."""

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[2]}"


def broken(path: Path) -> None:
    """A reader with many faults, which depend on the file."""
    data = path.read_bytes()
    match sum(data) % 7:
        case 0:
            raise KeyError("spam")
        case 1:
            raise RawError(str(path), 1, "two\nlines")
        case 2:
            raise RawError(str(path), 1, "x" * 700)
        case 3:
            raise FormatError("elsewhere", 1, "this names no file")
        case 4:
            import warnings

            warnings.warn("of others", DeprecationWarning, stacklevel=1)
        case 5:
            raise FormatError(str(path), 1, "fine")
        case _:
            raise RecursionError


def test_faults_are_noticed_written_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = Kind("planted", ".uai", (UAI.encode(),), spoil_text, broken, lambda value, folder: None)
    tally = Tally("mutate", SEED, tmp_path / "out", quiet=True)
    go_through(Judge([kind], tmp_path / "cases", SEED), range(150), tally)
    found = " ".join(tally.failed)
    for word in (
        "KeyError",
        "not on one line",
        "longer than",
        "not name the file",
        "DeprecationWarning",
        "RecursionError",
    ):
        assert word in found
    assert 5 < tally.passed < 60 and tally.passed + tally.failures == 150
    assert tally.end() == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"{tally.passed} passed, {tally.failures} failed"
    folder = next((tmp_path / "out").iterdir())
    case = json.loads((folder / "case.json").read_text())
    assert case["seed"] == SEED and (folder / "case.uai").exists() and (folder / "traceback.txt").read_text()
    monkeypatch.setattr("fuzz.mutate.make_kinds", lambda place, only: [kind])
    assert replay(folder, 5.0) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"


PLANTED = """
import os, signal, sys
from pathlib import Path
from fuzz import mutate
from fuzz.campaign import Budget, Tally
from fuzz.mutations import spoil_text
from fuzz.readers import UAI, Kind

def read(path):
    fault = sum(path.read_bytes()) % 50
    if fault == 1:
        os._exit(3)
    if fault == 2:  # as compiled code would: no alarm comes through
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        while True: pass
    if fault == 3:
        while True: pass
    if fault == 4:
        bytearray(1 << 40)

kind = Kind("planted", ".uai", (UAI.encode(),), spoil_text, read, lambda value, folder: None)
judge = mutate.Judge([kind], Path(sys.argv[1]) / "cases", 3, seconds=0.1)
tally = Tally("mutate", 3, Path(sys.argv[1]) / "out")
mutate.run(judge, Budget(None, 200), tally)
sys.exit(tally.end())
"""


def test_crashes_hangs_and_memory_are_noticed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, str(tmp_path)], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 1, done.stderr
    for words in ("the process died", "cannot be interrupted", "takes more than 0.1 seconds", "MemoryError"):
        assert words in done.stdout, done.stdout
    passed, failed = (int(word) for word in done.stdout.splitlines()[-1].split() if word.isdigit())
    assert passed > 100 and failed >= 4
