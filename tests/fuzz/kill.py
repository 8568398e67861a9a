"""The kill test: trainings that are killed, and go on (``make torture KILLS=100``).

In: every training command on small made data. Out: a verdict for each kill. A run is killed (SIGKILL) at random
moments, or while it saves: with half of a file written, before a file gets its name, right after. After each kill there
is no half-written file under any name that the command was given; the same command then goes on, and ends with the same
model, bit for bit, as a run that nobody interrupted.

The plan of case ``number`` of ``seed`` is always the same; the moments are as exact as the clock, kills while saving
are exact. Runs are forked from a process that has imported everything, so that the time goes into training.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.campaign import BrokenError, Budget, Failure, Tally, choose_kinds, options, read_case

NAME = "kill"
MODEL, CHECKPOINT, LOG = "model.loopwise", "run.checkpoint", "log.txt"
LONGEST = 300.0  # seconds that a run may take
MOST_KILLS = 4  # of one run
WHILE_SAVING = 0.4  # the share of kills that wait for a save
STAGES = ("half written", "before it is named", "after it is named")


@dataclass(frozen=True)
class Command:
    """A training command: its arguments, but for where it saves. ``resumes``: it takes a checkpoint."""

    name: str
    make: Callable[[Path], list[object]]
    resumes: bool = True

    def arguments(self, data: Path) -> list[str]:
        """Data lies in ``data``; outputs go to the folder that the command runs in."""
        saved = ["--out", MODEL, *(["--checkpoint", CHECKPOINT] if self.resumes else [])]
        return [*self.name.split(":")[0].split(), *map(str, self.make(data)), *saved]


@dataclass(frozen=True)
class Baseline:
    """What an uninterrupted run gives: the model, how long it takes, how many files it writes."""

    model: bytes
    seconds: float
    saves: int


# --- Data ------------------------------------------------------------------------------------------------------------


def make_data(folder: Path) -> None:
    """Small files to train on."""
    from PIL import Image

    from loopwise.apps.coref import made_documents
    from loopwise.formats.columns import write_tagged
    from loopwise.formats.conllu import write_conllu
    from loopwise.formats.coref import write_coref
    from oracles.toy_language import toy_sentences

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    rain = rng.random(96) < 0.5
    wet, grey = rain ^ (rng.random(96) < 0.1), rain ^ (rng.random(96) < 0.2)
    rows = zip(np.where(rain, "yes", "no"), np.where(wet, "wet", "dry"), np.where(grey, "grey", "blue"), strict=True)
    (folder / "table.csv").write_text("rain,grass,sky,mood\n" + "".join(f"{','.join(row)},\n" for row in rows))
    write_conllu(folder / "train.conllu", toy_sentences(40, seed=1))
    write_conllu(folder / "dev.conllu", toy_sentences(10, seed=2))
    words = [
        [f"w{rng.integers(30)}" if rng.random() < 0.7 else f"N{rng.integers(9)}" for _ in range(8)] for _ in range(60)
    ]
    tags = [["B-X" if word.startswith("N") else "O" for word in sentence] for sentence in words]
    write_tagged(folder / "train.conll", words, tags)
    write_tagged(folder / "dev.conll", words[:20], tags[:20])
    inputs = rng.normal(size=(80, 3))
    labels = (inputs @ rng.normal(size=(3, 3)) > 0).astype(int)
    lines = ["@relation 'r: -C -3'", *(f"@attribute x{place} numeric" for place in range(3))]
    lines += [*(f"@attribute y{place} {{0,1}}" for place in range(3)), "@data"]
    lines += [",".join(f"{value:g}" for value in row) for row in np.column_stack([inputs.round(4), labels])]
    (folder / "train.arff").write_text("\n".join(lines) + "\n")
    write_coref(folder / "coref.conllu", made_documents(6, seed=1, mentions=16))
    for name in ("noisy", "clean"):
        (folder / name).mkdir(exist_ok=True)
    for number in range(2):
        clean = np.zeros((8, 9), dtype=bool)
        clean[2:6, 2 + number : 7] = True
        noisy = np.clip(0.3 + 0.4 * clean + rng.normal(0, 0.2, clean.shape), 0, 1)
        for name, array in (("noisy", 255 * noisy), ("clean", 255 * clean)):
            Image.fromarray(array.astype(np.uint8)).save(folder / name / f"{number}.png")


TEMPLATES = "w[0] w[-1] bias"
COMMANDS: tuple[Command, ...] = (
    Command(
        "fit",
        lambda data: [
            data / "table.csv", "--outputs", "rain,grass", "--hidden", "mood", "--loss", "mse", "--iterations", 3,
            "--epochs", 40, "--batch", 32, "--restarts", 2, "--dev", data / "table.csv",
        ],
    ),
    Command(
        "parser train",
        lambda data: [
            data / "train.conllu", "--dev", data / "dev.conllu", "--epochs", 6, "--rate", 0.1, "--size", 20_000,
            "--cutoff", 1, "--iterations", 2, "--threads", 1,
        ],
    ),
    Command(
        "tagger train",
        lambda data: [data / "train.conll", "--dev", data / "dev.conll", "--templates", TEMPLATES, "--iterations", 60],
    ),
    Command(
        "tagger train:perceptron",
        lambda data: [
            data / "train.conll", "--dev", data / "dev.conll", "--templates", TEMPLATES, "--learner", "perceptron",
            "--epochs", 40,
        ],
    ),
    Command("multilabel train", lambda data: [data / "train.arff", "--epochs", 40, "--sweeps", 20]),
    Command(
        "multilabel train:likelihood",
        lambda data: [data / "train.arff", "--dev", data / "train.arff", "--learner", "likelihood", "--epochs", 60],
    ),
    Command("coref train", lambda data: [data / "coref.conllu", "--rounds", 12, "--steps", 3000]),
    Command(
        "denoise train",
        lambda data: [data / "noisy", data / "clean", "--label-values", "0,255", "--iterations", 20, "--sweeps", 30],
        resumes=False,
    ),
)  # fmt: skip


# --- Runs ------------------------------------------------------------------------------------------------------------


def start(arguments: Sequence[str], folder: Path, fault: tuple[str, int] | None = None) -> int:
    """The command in a process of its own, in ``folder``; ``fault``: where it kills itself, at which of its saves."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(folder)
        watch_saves(folder, fault)
        code = _command(arguments)
    finally:
        os._exit(code)


def _command(arguments: Sequence[str]) -> int:
    from loopwise.cli.main import run

    sys.argv = ["loopwise", *arguments]
    try:
        run()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70
    return 0


def watch_saves(folder: Path, fault: tuple[str, int] | None) -> None:
    """Counts the files that get their names in ``folder``, and ends this process at one of them where it should."""
    stage, which = fault if fault is not None else ("", 0)
    inside, sync, replace = os.path.realpath(folder), os.fsync, os.replace
    seen = {"synced": 0, "named": 0}

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def fsync(descriptor: Any) -> None:
        if os.path.realpath(f"/proc/self/fd/{descriptor}").startswith(inside):
            seen["synced"] += 1
            if stage == STAGES[0] and seen["synced"] == which:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
                die()
        sync(descriptor)

    def named(source: Any, target: Any, **rest: Any) -> None:
        own = os.path.realpath(os.fspath(target)).startswith(inside)
        seen["named"] += own
        if own and stage == STAGES[1] and seen["named"] == which:
            die()
        replace(source, target, **rest)
        if own:
            (folder / "saves").write_text(str(seen["named"]))
            if stage == STAGES[2] and seen["named"] == which:
                die()

    os.fsync, os.replace = fsync, named  # type: ignore[assignment]


def wait(pid: int, seconds: float) -> int | None:
    """The exit code of a process, negative for a signal; None if it is still there after so long."""
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(min(0.005, max(0.0, until - time.monotonic())))


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def finish(arguments: Sequence[str], folder: Path) -> None:
    """Lets a command run to its end."""
    pid = start(arguments, folder)
    code = wait(pid, LONGEST)
    if code is None:
        kill(pid)
        raise BrokenError(f"did not end within {LONGEST:g} seconds")
    if code:
        raise BrokenError(f"ended with exit code {code}")


def measure(command: Command, data: Path, folder: Path) -> Baseline:
    """Two uninterrupted runs, which must give the same file; the second, with all kernels compiled, is timed."""
    models = []
    for turn in ("first", "second"):
        own = folder / turn
        own.mkdir(parents=True)
        began = time.monotonic()
        finish(command.arguments(data), own)
        seconds = time.monotonic() - began
        models.append((own / MODEL).read_bytes())
    if models[0] != models[1]:
        raise BrokenError("two uninterrupted runs give different files")
    return Baseline(models[1], seconds, int((own / "saves").read_text()))


@dataclass
class Trial:
    """One run with its kills."""

    number: int
    command: str
    kills: list[str] = field(default_factory=list)
    problem: str = ""
    told: str = ""
    left: int = 0  # temporary files that kills left behind
    resumed: int = 0  # kills after which there was a checkpoint to go on from


def attempt(command: Command, baseline: Baseline, data: Path, folder: Path, seed: int, number: int) -> Trial:
    """Kills a run a few times, then lets it end, and compares."""
    random, trial = Random(f"{seed} {number}"), Trial(number, command.name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for _ in range(random.randint(1, MOST_KILLS)):
            fault = None
            moment = random.uniform(0, baseline.seconds)
            if random.random() < WHILE_SAVING:
                fault, moment = (random.choice(STAGES), random.randint(1, baseline.saves)), LONGEST
            pid = start(command.arguments(data), folder, fault)
            code = wait(pid, moment)
            if code is None:
                kill(pid)
            if code not in (None, -signal.SIGKILL, 0):
                raise BrokenError(f"ended with exit code {code} after {len(trial.kills)} kills")
            if code == 0:
                break  # it was faster than planned
            trial.kills.append(f"{moment:.2f} s" if fault is None else f"{fault[0]}, save {fault[1]}")
            check_files(command, baseline, folder)
            trial.resumed += (folder / CHECKPOINT).exists()
        finish(command.arguments(data), folder)
        check_files(command, baseline, folder)
        if not (folder / MODEL).exists() or (folder / MODEL).read_bytes() != baseline.model:
            raise BrokenError("the model of a run that was killed and went on is another")
        trial.left = len(list(folder.glob("*.tmp")))
    except BrokenError as problem:
        trial.problem = str(problem)
        log = (folder / LOG).read_text(errors="replace") if (folder / LOG).exists() else ""
        trial.told = f"{problem}\nkilled: {'; '.join(trial.kills)}\n{' '.join(command.arguments(data))}\n\n{log}"
    return trial


def check_files(command: Command, baseline: Baseline, folder: Path) -> None:
    """Nothing is half there: the model is the whole one, or not there; the checkpoint can be read, or is not there."""
    from loopwise.formats.errors import FormatError
    from loopwise.learn.files.container import read_container

    if (folder / MODEL).exists() and (folder / MODEL).read_bytes() != baseline.model:
        raise BrokenError("there is a model that is not the whole one")
    if (folder / CHECKPOINT).exists():
        try:
            read_container(folder / CHECKPOINT)
        except FormatError as problem:
            raise BrokenError(f"there is a checkpoint that cannot be read: {problem.problem}") from None
    own = {MODEL, CHECKPOINT, LOG, "saves"}
    strange = [path.name for path in folder.iterdir() if path.name not in own and not path.name.endswith(".tmp")]
    if strange:
        raise BrokenError(f"there are files that nobody asked for: {strange}")


# --- The campaign ----------------------------------------------------------------------------------------------------


def preload() -> None:
    """Imports what commands need, so that forked runs begin with training. Starts no thread."""
    import numba  # noqa: F401
    import torch

    import loopwise.cli.main  # noqa: F401
    from loopwise.apps import ChainCRF, Coref, GridCRF, MultiLabel, Parser, Tagger  # noqa: F401
    from loopwise.apps.parser import fitting  # noqa: F401
    from loopwise.learn import fit  # noqa: F401

    os.environ["LOOPWISE_THREADS"] = "1"
    torch.set_num_threads(1)


def _attempt(packed: tuple[Any, ...]) -> Trial:
    name, *rest = packed
    return attempt(next(command for command in COMMANDS if command.name == name), *rest)


def torture(
    commands: Sequence[Command], seed: int, budget: Budget, tally: Tally, folder: Path, jobs: int
) -> tuple[int, int]:
    """Trials, in turn for each command, until there were enough kills.

    How many temporary files were left behind, and after how many kills there was a checkpoint to go on from.
    """
    data, baselines, left, resumed, kills = folder / "data", {}, 0, 0, 0
    make_data(data)
    for command in commands:
        try:
            baselines[command.name] = measure(command, data, folder / "whole" / command.name)
        except BrokenError as problem:
            log = "\n".join(path.read_text(errors="replace") for path in (folder / "whole" / command.name).rglob(LOG))
            tally.fail(Failure(0, command.name, f"{command.name}: {problem}", log))
    able = [command.name for command in commands if command.name in baselines]
    budget.began = time.monotonic()
    with get_context("fork").Pool(jobs) as pool:
        number = 0
        while able and budget.spent(kills) < 1:
            plan = []
            for name in (able * jobs)[: max(jobs, len(able))]:
                own = folder / "trials" / str(number)
                plan.append((name, baselines[name], data, own, seed, number))
                number += 1
            for trial in pool.imap_unordered(_attempt, plan):
                left, resumed, count = left + trial.left, resumed + trial.resumed, len(trial.kills)
                kills += count
                if trial.problem:
                    facts = {"kills": trial.kills}
                    signature = f"{trial.command}: {trial.problem}"
                    tally.fail(Failure(trial.number, trial.command, signature, trial.told, {}, facts), max(count, 1))
                else:
                    tally.add(trial.command, count)
                shutil.rmtree(folder / "trials" / str(trial.number), ignore_errors=True)
                tally.show(budget.spent(kills))
    return left, resumed


def replay(folder: Path) -> int:
    """The trial of a failure again, by its plan."""
    case = read_case(folder)
    command = next(one for one in COMMANDS if one.name == case["kind"])
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        make_data(top / "data")
        try:
            baseline = measure(command, top / "data", top / "whole")
        except BrokenError as problem:
            print(f"{problem}\n0 passed, 1 failed")
            return 1
        trial = attempt(command, baseline, top / "data", top / "trial", case["seed"], case["number"])
    print(trial.told or f"killed: {'; '.join(trial.kills)}")
    print(
        f"{0 if trial.problem else len(trial.kills)} passed, {max(1, len(trial.kills)) if trial.problem else 0} failed"
    )
    return int(bool(trial.problem))


def main(arguments: Sequence[str] | None = None) -> int:
    def own(parser: Any) -> None:
        parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")

    given = options(NAME, "Trainings that are killed and go on; --count is of kills.", arguments, own)
    preload()
    if given.replay is not None:
        return replay(given.replay)
    chosen = choose_kinds([command.name for command in COMMANDS], given.only)
    tally = Tally(NAME, given.seed, given.out)
    with tempfile.TemporaryDirectory(prefix="loopwise-kill-") as place:
        commands = [command for command in COMMANDS if command.name in chosen]
        left, resumed = torture(
            commands, given.seed, Budget(given.minutes, given.count), tally, Path(place), given.jobs
        )
    print(f"{resumed} kills left a checkpoint to go on from; {left} temporary files were left, none in the way")
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
