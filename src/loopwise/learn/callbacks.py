"""Callbacks that write training down: to a table of comma-separated values, to TensorBoard.

In: each :class:`~loopwise.learn.history.Epoch` as it ends. Out: files. Stage: learning. A callback is any function of
an epoch; True ends training.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from os import fspath
from pathlib import Path
from typing import Any

from loopwise.formats.files import PathLike
from loopwise.learn.history import Epoch
from loopwise.learn.objective import Callback

COLUMNS = ("restart", "stage", "number", "loss", "dev", "seconds")


def as_callbacks(given: Callback | Sequence[Callback] | None) -> tuple[Callback, ...]:
    """None, one or several, as several."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)


class CSVLog:
    """Appends a row for each epoch to the table at ``path``: a header first, if the file is new or empty.

    A training that goes on from a checkpoint goes on in the same table.

    >>> import csv, tempfile
    >>> from loopwise.learn.history import Epoch
    >>> log = CSVLog(tempfile.mkdtemp() + "/log.csv")
    >>> log(Epoch(1, 0.5, 2.0, dev=0.25))
    >>> [row["dev"] for row in csv.DictReader(open(log.path))]
    ['0.25']
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    def __call__(self, epoch: Epoch) -> None:
        """One more row; a measure that was not taken is an empty cell."""
        fresh = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            if fresh:
                table.writerow(COLUMNS)
            told = asdict(epoch)
            table.writerow(["" if told[name] is None else told[name] for name in COLUMNS])


class TensorBoardLog:
    """Writes loss, measure and step sizes of each epoch to the event files of TensorBoard in ``folder``.

    Needs the package ``tensorboard``, which loopwise does not install.

    Raises
    ------
    ValueError
        If it is not installed.
    """

    def __init__(self, folder: PathLike) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "TensorBoardLog needs the package tensorboard: install it, or log to a table with CSVLog"
            ) from None
        self.writer: Any = SummaryWriter(fspath(folder))

    def __call__(self, epoch: Epoch) -> None:
        """The curves of each restart have its number in their names."""
        run = f"run {epoch.restart + 1}"
        self.writer.add_scalar(f"{run}/loss", epoch.loss, epoch.number)
        if epoch.dev is not None:
            self.writer.add_scalar(f"{run}/development data", epoch.dev, epoch.number)
        if epoch.gains is not None:
            for name, gain in zip(("least", "median", "largest"), epoch.gains, strict=True):
                self.writer.add_scalar(f"{run}/{name} gain", gain, epoch.number)
        self.writer.flush()
