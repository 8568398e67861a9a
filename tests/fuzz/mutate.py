"""The mutation fuzzer: spoilt files for every reader and every loader (``make fuzz MINUTES=10``).

In: valid files of each kind (:mod:`fuzz.readers`, :mod:`fuzz.models`). Out: a verdict for each spoilt one. It is either
read, and then what was read holds together; or refused by a FormatError in one sentence that names the file. Anything
else is a failure: another exception, a warning that is not the library's, too much time, too much memory, a crash.

Case ``number`` of ``seed`` is always the same. A process of its own goes through the cases; it is replaced by a fresh
one where a case kills it or does not end.
"""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from numba.core.event import Event, Listener, install_listener

from fuzz.campaign import (
    BrokenError,
    Budget,
    Failure,
    Tally,
    choose_kinds,
    complaint_about,
    options,
    place_of,
    raised_in_library,
    read_case,
    told,
)
from fuzz.readers import Kind, reader_kinds
from loopwise.formats.errors import FormatError
from loopwise.notices import LoopwiseWarning

NAME = "mutate"
SECONDS = 5.0  # that a case may take; one that cannot be interrupted is killed after four times as long
MEMORY = 1 << 30  # bytes that a case may add to the process: seeds are of a few kilobytes
ADDRESSES = 6 << 30  # of address space beyond what the process has at its start: nothing may even ask for more
COMPILATION = 600.0  # seconds that a kernel's compilation may take, on a busy machine
REPORT_EVERY = 0.25  # seconds


class OutOfTimeError(BaseException):
    """Not an Exception: nothing on the way should catch it."""


# --- One case --------------------------------------------------------------------------------------------------------


class Judge:
    """Tries spoilt files one after another, in a folder of its own."""

    def __init__(self, kinds: Sequence[Kind], folder: Path, seed: int, seconds: float = SECONDS) -> None:
        self.kinds, self.folder, self.seed, self.seconds = list(kinds), folder, seed, seconds
        self.weights = [kind.weight for kind in self.kinds]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.foreign: list[str] = []  # warnings that are not the library's
        self.compiling = Compiling()

    def case(self, number: int) -> tuple[Kind, bytes]:
        """Which reader, and the file that it is given."""
        random = Random(f"{self.seed} {number}")
        kind = random.choices(self.kinds, self.weights)[0]
        return kind, kind.mutate(random, random.choice(kind.seeds))

    def judge(self, number: int, kind: Kind, data: bytes) -> Failure | None:
        """None if the file was read or refused as it should be."""
        path = self.folder / f"case{kind.suffix}"
        path.write_bytes(data)
        self.foreign.clear()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        problem = self._tried(kind, path)
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        if problem is None and self.foreign:
            problem = f"warns: {self.foreign[0]}", "\n".join(self.foreign)
        if problem is None and grown > MEMORY:
            problem = "takes more than 1 GiB of memory", f"{grown} bytes more at its peak"
        if problem is None:
            return None
        return Failure(number, kind.name, f"{kind.name}: {problem[0]}", problem[1], {path.name: data})

    def _tried(self, kind: Kind, path: Path) -> tuple[str, str] | None:
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        reading = True
        try:
            value = kind.read(path)
            reading = False
            kind.check(value, self.folder)
        except FormatError as error:
            if not reading and not kind.lenient:
                wrong: str | None = "is raised for what was written"
            else:
                wrong = complaint_about(error, str(path) if reading else "")
            return None if wrong is None else (f"FormatError {wrong} at {place_of(error.__traceback__)}", told(error))
        except BrokenError as error:
            return f"broken: {error}", told(error)
        except OutOfTimeError as error:
            return f"takes more than {self.seconds:g} seconds at {place_of(error.__traceback__)}", told(error)
        except Exception as error:
            if (
                not reading
                and kind.lenient
                and isinstance(error, ValueError)
                and raised_in_library(error.__traceback__)
            ):
                wrong = complaint_about(error)
                if wrong is None:
                    return None
            return f"{type(error).__name__} at {place_of(error.__traceback__)}", told(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Alarms and warnings come here."""

        def alarm(*_: Any) -> None:
            if self.compiling.depth:
                signal.setitimer(signal.ITIMER_REAL, self.seconds)
            else:
                raise OutOfTimeError

        def hear(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            if not issubclass(category, LoopwiseWarning):
                said = str(message).replace(str(self.folder), "")
                self.foreign.append(f"{category.__name__}: {said[:100]}")

        before = signal.signal(signal.SIGALRM, alarm)
        with install_listener("numba:compile", self.compiling), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = hear
            try:
                yield
            finally:
                signal.signal(signal.SIGALRM, before)


def make_kinds(folder: Path, only: Sequence[str] | None, *, models: bool = True) -> list[Kind]:
    """The kinds that were asked for. Models are trained first, unless none is."""
    readers = reader_kinds(folder)
    if only and all(any(kind.name.startswith(wish) for kind in readers) for wish in only):
        models = False
    known = readers
    if models:
        from fuzz.models import model_kinds

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = [*readers, *model_kinds(folder / "trained")]
    chosen = choose_kinds([kind.name for kind in known], only)
    return [kind for kind in known if kind.name in chosen]


def go_through(judge: Judge, numbers: range, tally: Tally) -> None:
    """All of some cases in this process, without protection from crashes: the slice in the tests."""
    with judge.at_work():
        for number in numbers:
            kind, data = judge.case(number)
            failure = judge.judge(number, kind, data)
            if failure is None:
                tally.add(kind.name)
            else:
                tally.fail(failure)


# --- A process that may die ------------------------------------------------------------------------------------------


class Board:
    """What a worker shows while it works, in memory that outlives it: the case it is at, how many of each kind passed,
    and whether it compiles a kernel."""

    def __init__(self, kinds: int) -> None:
        self._cells = memoryview(mmap.mmap(-1, 8 * (2 + kinds))).cast("q")

    def begin(self, number: int) -> None:
        """A worker begins at a case."""
        self._cells[0], self._cells[1] = number, 0

    def put(self, number: int) -> None:
        self._cells[0] = number

    def passed(self, kind: int) -> None:
        self._cells[2 + kind] += 1

    def tick(self) -> None:
        """A kernel's compilation has begun or ended."""
        self._cells[1] += 1

    def get(self) -> tuple[int, int]:
        """The case, and the count of :meth:`tick`, which is odd during a compilation."""
        return self._cells[0], self._cells[1]

    def counts(self) -> list[int]:
        """How many cases of each kind passed, since the board was made."""
        return self._cells[2:].tolist()


class Compiling(Listener):
    """Hears of compilations (by Numba's events), which take seconds the first time and are no fault of a case."""

    def __init__(self) -> None:
        self.depth, self.tick = 0, lambda: None

    def on_start(self, event: Event) -> None:
        self.depth += 1
        if self.depth == 1:
            self.tick()

    def on_end(self, event: Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.tick()


def work(judge: Judge, first: int, board: Board, out: Connection) -> None:
    """Goes through cases from ``first`` on until it is stopped; tells of failures."""
    limit = ADDRESSES + 4096 * int(Path("/proc/self/statm").read_text().split()[0]) if _has_proc() else None
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    judge.compiling.tick = board.tick
    place = {kind.name: number for number, kind in enumerate(judge.kinds)}
    with judge.at_work():
        for number in count(first):
            board.put(number)
            kind, data = judge.case(number)
            failure = judge.judge(number, kind, data)
            if failure is None:
                board.passed(place[kind.name])
            else:
                out.send(failure)


def _has_proc() -> bool:
    return Path("/proc/self/statm").exists()


class Worker:
    """A forked process at :func:`work`: what was trained and compiled before is there already."""

    def __init__(self, judge: Judge, first: int, board: Board) -> None:
        self.reader, writer = Pipe(duplex=False)
        board.begin(first)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                self.reader.close()
                with suppress(KeyboardInterrupt, BrokenPipeError):
                    work(judge, first, board, writer)
                    status = 0
            finally:
                os._exit(status)
        writer.close()

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.reader.close()


def run(judge: Judge, budget: Budget, tally: Tally) -> None:
    """Cases from 0 on until the budget is spent."""
    board = Board(len(judge.kinds))
    worker, known = Worker(judge, 0, board), board.counts()
    at, since = board.get(), time.monotonic()
    try:
        while (share := budget.spent(at[0])) < 1:
            tally.show(share)
            ended = _hear(worker, tally)
            if board.get() != at:
                at, since = board.get(), time.monotonic()
            elif time.monotonic() - since > (4 * judge.seconds if at[1] % 2 == 0 else COMPILATION):
                ended = f"does not end within {4 * judge.seconds:g} seconds, and cannot be interrupted"
            if ended:
                worker.stop()
                number = board.get()[0]
                kind, data = judge.case(number)
                tally.fail(Failure(number, kind.name, f"{kind.name}: {ended}", ended, {f"case{kind.suffix}": data}))
                worker = Worker(judge, number + 1, board)
                at, since = board.get(), time.monotonic()
            known = _count(judge, board, known, tally)
    finally:
        worker.stop()
        _count(judge, board, known, tally)


def _hear(worker: Worker, tally: Tally) -> str:
    """Takes failures from a worker, for a moment at most; what is wrong if it died."""
    try:
        if worker.reader.poll(REPORT_EVERY):
            tally.fail(worker.reader.recv())
    except (EOFError, OSError):
        return "the process died"
    return ""


def _count(judge: Judge, board: Board, known: list[int], tally: Tally) -> list[int]:
    """Adds what passed since ``known``."""
    found = board.counts()
    for kind, before, after in zip(judge.kinds, known, found, strict=True):
        tally.add(kind.name, after - before)
    return found


def replay(folder: Path, seconds: float) -> int:
    """Tries the file of a failure again, in this process; the traceback is the proof."""
    case = read_case(folder)
    with scratch() as place:
        kind = next(one for one in make_kinds(place, [case["kind"]]) if one.name == case["kind"])
        judge = Judge([kind], place / "cases", case["seed"], seconds)
        with judge.at_work():
            failure = judge.judge(case["number"], kind, (folder / case["files"][0]).read_bytes())
    if failure is not None:
        print(failure.told)
        print(failure.signature)
    print(f"{int(failure is None)} passed, {int(failure is not None)} failed")
    return int(failure is not None)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: readers should not wait for disks."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="loopwise-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    def own(parser: Any) -> None:
        parser.add_argument("--seconds", type=float, default=SECONDS, help="that a case may take")

    given = options(NAME, "Spoilt files for every reader and loader.", arguments, own)
    _one_thread()
    if given.replay is not None:
        return replay(given.replay, given.seconds)
    with scratch() as folder:
        judge = Judge(make_kinds(folder, given.only), folder / "cases", given.seed, given.seconds)
        tally = Tally(NAME, given.seed, given.out)
        run(judge, Budget(given.minutes, given.count), tally)
    return tally.end()


def _one_thread() -> None:
    """Forked processes cannot take threads along."""
    import torch

    os.environ["LOOPWISE_THREADS"] = "1"
    torch.set_num_threads(1)


if __name__ == "__main__":
    sys.exit(main())
