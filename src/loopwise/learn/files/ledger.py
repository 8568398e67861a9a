"""The file of a training: what is finished, and where the part under way stands.

In: a path, what tells the run from others. Out: :class:`Ledger`, which :func:`loopwise.learn.trainer.train` reads and
writes. Stage: learning. One file serves several trainings by name, such as the folds, the trees and the relations of a
parser; its format is that of :mod:`loopwise.learn.files.checkpoint`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.learn.distributed import ALONE, Team
from loopwise.learn.files.checkpoint import Run, read_checkpoint, restoring, write_checkpoint

logger = logging.getLogger(__name__)

SPARING = 0.1  # of the time, at most, goes into writing files of those who ask for that


@dataclass
class Ledger:
    """What a checkpoint holds; without a path nothing is ever written.

    ``finished``: what trainings by name ended with. ``current``: the name and the state of the one under way.
    ``share``: the part of the time that may go into writing, None: all it takes, so that the file is as new as the
    last round.
    """

    path: PathLike | None = None
    run: Run = field(default_factory=dict)
    share: float | None = None
    finished: dict[str, Any] = field(default_factory=dict)
    current: dict[str, Any] = field(default_factory=dict)
    _written: float = -float("inf")  # when
    _cost: float = 0.0  # seconds that it took

    @staticmethod
    def open(path: PathLike | None, run: Run, share: float | None = None, team: Team = ALONE) -> Ledger:
        """Goes on from the file at ``path``, if there is one; that of another run is an error.

        Of a ``team`` the first process reads and writes it, and the others go on from what it read.
        """
        found = None if path is None else team.from_first(lambda: read_checkpoint(path, run))
        own = path if team.first else None
        if path is None or found is None:
            return Ledger(own, run, share)
        if isinstance(found, Mapping) and "finished" not in found:
            raise FormatError(
                display_name(path),
                None,
                "this checkpoint was written by an earlier version of loopwise; finish its training with that, or "
                "remove the file to start anew",
            )
        with restoring(path):
            return Ledger(own, run, share, dict(found["finished"]), dict(found["current"]))

    def under_way(self, name: str) -> Mapping[str, Any] | None:
        """Where the training ``name`` stood when the file was written, if it was this one."""
        return self.current["state"] if self.current and self.current["name"] == name else None

    def keep(self, name: str, state: Callable[[], Any]) -> None:
        """A round of the training ``name`` is over: ``state`` gives all that the rest of it depends on."""
        if self.path is None:
            return
        if self.share is None or (time.perf_counter() - self._written) * self.share >= self._cost:
            self.current = {"name": name, "state": state()}
            self.write()

    def finish(self, name: str, result: Callable[[], Any]) -> None:
        """The training ``name`` ended with ``result``, which its like will be given instead of training again."""
        if self.path is None:
            return
        self.finished[name], self.current = result(), {}
        self.write()

    def write(self) -> None:
        """Writes the file, whole or not at all."""
        assert self.path is not None
        began = time.perf_counter()
        write_checkpoint(self.path, self.run, {"finished": self.finished, "current": self.current})
        self._written = time.perf_counter()
        self._cost = self._written - began
        logger.debug("checkpoint written to %s", self.path)
