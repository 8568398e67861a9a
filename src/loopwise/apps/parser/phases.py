"""Phases of training, each one table of weights, with checkpoints.

In: a task. Out: its trained weights. Stage: use. A checkpoint holds the weights of finished phases and where the one
under way stands, so that a run that goes on from it ends with the same weights as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loopwise.apps.parser.table import Floats, Table, pack, unpack
from loopwise.apps.parser.tasks import Task
from loopwise.apps.parser.training import Progress, Settings, probe_rate, train_table
from loopwise.formats.files import PathLike
from loopwise.learn.checkpoint import read_checkpoint, write_checkpoint
from loopwise.learn.history import Epoch
from loopwise.learn.progress import Tell


@dataclass
class Record:
    """What a checkpoint holds: weights of finished phases by name, and where the present one stands."""

    path: PathLike | None
    run: Mapping[str, str]
    finished: dict[str, Any] = field(default_factory=dict)
    current: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def open(path: PathLike | None, run: Mapping[str, str]) -> Record:
        """What is in the file, if there is one of the same run."""
        state = None if path is None else read_checkpoint(path, run)
        return Record(path, run) if state is None else Record(path, run, state["finished"], state["current"])

    def write(self) -> None:
        """Nothing where no file was asked for."""
        if self.path is not None:
            write_checkpoint(self.path, self.run, {"finished": self.finished, "current": self.current})


@dataclass
class Counted:
    """A progress bar over several phases: epochs of earlier ones are added."""

    tell: Tell
    before: float = 0.0
    note: str = ""

    def phase(self, name: str) -> Callable[[float, str], None]:
        before = self.before
        return lambda done, text: self.tell(before + done, f"{name}: {text}{self.note}")


def run_phase(
    name: str,
    make: Callable[[], Task],
    size: int,
    settings: Settings,
    record: Record,
    counted: Counted,
    *,
    stage: int = 0,
    start: Floats | None = None,
    evaluate: Callable[[Floats], float] | None = None,
    probe: bool = False,
) -> tuple[Floats, Progress]:
    """Trains one table, from the record where it has been under way; its weights ``[size]``.

    ``start``: weights to begin with instead of 0; they are kept where no epoch is better on the development data.
    """
    key = f"{name} {stage}"
    tell = counted.phase(name)
    if key not in record.finished:
        task, table = make(), Table(size)
        progress, best = Progress([]), None
        if record.current.get("phase") == key:
            progress, best, settings = _resume(record.current, table, settings)
        else:
            if start is not None:
                table.start_from(start, settings.l2 > 0)
                if evaluate is not None:
                    progress, best = Progress([], 0, evaluate(start)), start
            if probe:
                settings = probe_rate(task, table, settings)

        def after(now: Progress, best: Floats | None) -> None:
            if record.path is not None:
                record.current = {
                    "phase": key, "table": table.state(), "progress": _progress_json(now), "rate": settings.rate,
                    "best": None if best is None else pack(best),
                }  # fmt: skip
                record.write()

        measured = None if evaluate is None else lambda: evaluate(table.copy_weights())
        progress = train_table(
            task, table, settings, stage=stage, progress=progress, evaluate=measured, after=after, best=best, tell=tell
        )
        record.finished[key] = {"weights": pack(table.copy_weights()), "progress": _progress_json(progress)}
        record.current = {}
        record.write()
    counted.before += settings.epochs
    done = record.finished[key]
    return unpack(done["weights"], size), _progress_of(done["progress"])


def _resume(current: Mapping[str, Any], table: Table, settings: Settings) -> tuple[Progress, Floats | None, Settings]:
    table.restore(current["table"])
    best = None if current["best"] is None else unpack(current["best"], table.size)
    return _progress_of(current["progress"]), best, replace(settings, rate=current["rate"])


def _progress_json(progress: Progress) -> dict[str, Any]:
    entries = [dataclasses.asdict(epoch) for epoch in progress.epochs]
    return {"epochs": entries, "best": progress.best, "best_dev": progress.best_dev, "ended": progress.ended}


def _progress_of(json: Mapping[str, Any]) -> Progress:
    epochs = [Epoch(**entry) for entry in json["epochs"]]
    return Progress(epochs, json["best"], json["best_dev"], json["ended"])
