"""What the campaigns of this folder share: options, progress, failures kept in folders, and how they end.

In: cases, each told by a seed and a number. Out: a folder for each distinct failure, with the input, the seed and the
traceback, and the last line ``N passed, M failed``. A campaign is run as a module: ``PYTHONPATH=tests python -m
fuzz.mutate``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

OUT = Path("out") / "fuzz"
KEPT = 3  # failures of one kind that are written; the others are only counted
REDRAWN = 0.2  # seconds between two lines of progress
LIBRARY = "loopwise"
SEVERAL_LINES = re.compile(r"[\r\n\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029]")  # what would leave its line
LONGEST_SENTENCE = 600


class BrokenError(Exception):
    """A promise that was not kept."""


@dataclass(frozen=True)
class Failure:
    """One case that failed. ``signature``: what failures of one cause have in common."""

    number: int
    kind: str
    signature: str
    told: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Tally:
    """Counts cases, writes failures, shows progress, and has the last word."""

    def __init__(self, name: str, seed: int, folder: Path, *, quiet: bool = False) -> None:
        self.name, self.seed, self.folder, self.quiet = name, seed, folder, quiet
        self.passed = self.failures = 0  # cases
        self.failed: Counter[str] = Counter()  # how often each cause was seen; a case may have several
        self.kinds: Counter[str] = Counter()
        self._where: dict[str, Path] = {}
        self._began = self._drawn = time.monotonic()

    def add(self, kind: str, passed: int = 1) -> None:
        """So many cases of a kind that passed."""
        self.passed += passed
        self.kinds[kind] += passed

    def fail(self, failure: Failure, count: int = 1) -> None:
        """A case (or ``count`` alike) that failed; the first ones of each cause are written to a folder.

        ``count`` 0: another thing that is wrong with a case that has been counted.
        """
        self.failures += count
        self.failed[failure.signature] += 1
        self.kinds[failure.kind] += count
        if self.failed[failure.signature] <= KEPT:
            where = self.folder / f"{self.name}-{self.seed}-{failure.number}"
            self._where.setdefault(failure.signature, where)
            write_failure(where, self.name, self.seed, failure)

    def show(self, share: float) -> None:
        """A line of progress, on a terminal only."""
        now = time.monotonic()
        if self.quiet or not sys.stderr.isatty() or now - self._drawn < REDRAWN:
            return
        self._drawn = now
        share, rate = min(share, 1.0), (self.passed + self.failures) / max(now - self._began, 1e-9)
        bar = "#" * round(30 * share)
        said = f"[{bar:<30}] {share:4.0%}  {self.passed} passed, {self.failures} failed, {rate:.0f} a second"
        print(f"\r{said:<100}", end="", file=sys.stderr, flush=True)

    def end(self) -> int:
        """The report, whose last line says it all, and the exit code."""
        if sys.stderr.isatty() and not self.quiet:
            print(file=sys.stderr)
        seconds = time.monotonic() - self._began
        print(f"{self.name}: seed {self.seed}, {seconds:.0f} seconds")
        print("cases: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())))
        for signature, count in self.failed.most_common():
            print(f"FAILED {count} times: {signature}\n    replay: {replay_line(self.name, self._where[signature])}")
        print(f"{self.passed} passed, {self.failures} failed")
        return 1 if self.failures else 0


def write_failure(where: Path, name: str, seed: int, failure: Failure) -> None:
    """The folder of a failure: its input, what is known of it, what was raised."""
    where.mkdir(parents=True, exist_ok=True)
    for file, data in failure.files.items():
        (where / file).write_bytes(data)
    facts = {
        "campaign": name,
        "seed": seed,
        "number": failure.number,
        "kind": failure.kind,
        "signature": failure.signature,
        "files": sorted(failure.files),
        **failure.facts,
        "replay": replay_line(name, where),
    }
    (where / "case.json").write_text(json.dumps(facts, indent=1) + "\n")
    (where / "traceback.txt").write_text(failure.told, errors="backslashreplace")


def replay_line(name: str, where: Path) -> str:
    return f"PYTHONPATH=tests python -m fuzz.{name} --replay {where}"


def environment() -> dict[str, str]:
    """For a campaign in a process of its own: the folder of the tests is on the path."""
    tests = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}


def read_case(where: Path) -> dict[str, Any]:
    """What :func:`write_failure` wrote."""
    return dict(json.loads((where / "case.json").read_text()))


def options(
    name: str, description: str, arguments: Sequence[str] | None, extra: Callable[..., None] | None = None
) -> Any:
    """The options that all campaigns have."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.{name}", description=description)
    parser.add_argument("--minutes", type=float, help="how long to go on")
    parser.add_argument("--count", type=int, help="how many cases to try (without either: 1 minute)")
    parser.add_argument("--seed", type=int, help="which cases (by default another seed each time, which is printed)")
    parser.add_argument("--only", action="append", metavar="KIND", help="only this kind of case; may be given again")
    parser.add_argument("--out", type=Path, default=OUT, help=f"where failures are written (default {OUT})")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="try the case of a failure's folder again")
    if extra is not None:
        extra(parser)
    given = parser.parse_args(arguments)
    if given.seed is None:
        given.seed = time.time_ns() % 1_000_000
    if given.minutes is None and given.count is None:
        given.minutes = 1.0
    if given.replay is None:
        print(f"{name}: seed {given.seed}", flush=True)
    return given


@dataclass
class Budget:
    """How much of a campaign is over: by time, by count, whichever comes first."""

    minutes: float | None
    count: int | None
    began: float = field(default_factory=time.monotonic)

    def spent(self, done: int) -> float:
        """The share that is over; 1 and more: stop."""
        shares = [0.0]
        if self.minutes is not None:
            shares.append((time.monotonic() - self.began) / max(60 * self.minutes, 1e-9))
        if self.count is not None:
            shares.append(done / max(self.count, 1))
        return max(shares)


def choose_kinds(known: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """The kinds that were asked for; a name may be the beginning of several."""
    if not only:
        return list(known)
    chosen = [kind for kind in known if any(kind == wish or kind.startswith(wish) for wish in only)]
    if not chosen:
        raise SystemExit(f"error: no kind is called {' or '.join(only)}; there are {', '.join(known)}")
    return chosen


# --- What was raised -------------------------------------------------------------------------------------------------


def place_of(trace: TracebackType | None) -> str:
    """The last place in the library that a traceback went through."""
    found = ""
    for frame, line in traceback.walk_tb(trace):
        if LIBRARY in Path(frame.f_code.co_filename).parts:
            path = "/".join(Path(frame.f_code.co_filename).parts).rpartition(f"{LIBRARY}/")[2]
            found = f"{path}:{line} {frame.f_code.co_name}"
    return found or "outside of the library"


def raised_in_library(trace: TracebackType | None) -> bool:
    """Whether it was the library that raised, not a module that it called."""
    last = None
    for frame, _ in traceback.walk_tb(trace):
        last = frame
    return last is not None and LIBRARY in Path(last.f_code.co_filename).parts


def complaint_about(error: BaseException, named: str = "") -> str | None:
    """What is wrong with the message of an error: it should be one sentence, and name the file ``named``."""
    said = str(error)
    if not said.strip():
        return "says nothing"
    if SEVERAL_LINES.search(said):
        return "is not on one line"
    if len(said.replace(named, "") if named else said) > LONGEST_SENTENCE:
        return f"is longer than {LONGEST_SENTENCE} characters"
    if named and named not in said:
        return "does not name the file"
    return None


def told(error: BaseException) -> str:
    """A traceback as text."""
    return "".join(traceback.format_exception(error))
