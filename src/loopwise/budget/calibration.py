r"""Run time in nanoseconds, measured once on the machine at hand and kept in a file.

In: nothing, or a file. Out: :class:`Nanoseconds`, a cost model. Stage: budget.
"""

from __future__ import annotations

import itertools
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.arguments import checked_whole
from loopwise.budget.cost import CellCost, Cost, Floats, MessageCost
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.graph.builders import random_mrf
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, Engine
from loopwise.learn.files.fields import DAMAGE, FieldError, check_options
from loopwise.potentials.tables import TablePotentials

KIND = "loopwise run time"
REPEATS = 7
SHORT, LONG = 4, 24  # sweeps: their difference is what sweeps cost, the rest what a run costs


@dataclass(frozen=True)
class Nanoseconds(Cost):
    """A message, a table cell, a sweep, a run and a factor that evidence cuts, in nanoseconds; by :func:`calibrate`."""

    message: float = 1.0
    cell: float = 0.0
    sweep_start: float = 0.0
    run_start: float = 0.0
    slice: float = 0.0
    machine: str = ""
    batch: int = 1
    unit: ClassVar[str] = "nanoseconds"

    def __post_init__(self) -> None:
        for name in ("message", "cell", "sweep_start", "run_start", "slice"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of nanoseconds, at least 0, not {getattr(self, name)}")

    def factor(self, messages: Floats, cells: Floats) -> Floats:
        return self.message * messages + self.cell * cells

    @property
    def each_sweep(self) -> float:
        return self.sweep_start

    @property
    def each_run(self) -> float:
        return self.run_start

    @property
    def each_slice(self) -> float:
        return self.slice

    def save(self, path: PathLike) -> None:
        """Writes the numbers as JSON; the file appears whole or not at all."""
        with atomic_write(path) as stream:
            json.dump({"kind": KIND, **asdict(self)}, stream, indent=1)
            stream.write("\n")

    @staticmethod
    def load(path: PathLike) -> Nanoseconds:
        """What :meth:`save` wrote."""
        try:
            stored: dict[str, Any] = json.loads(read_text(path))
            if stored.pop("kind") != KIND:
                raise KeyError
            check_options(Nanoseconds, stored, KIND)
            return Nanoseconds(**stored)
        except DAMAGE as problem:
            if isinstance(problem, FormatError):
                raise
            reason = f" ({problem})" if isinstance(problem, FieldError) else ""
            raise FormatError(
                display_name(path), None, f"this is no file of run times{reason}; calibrate again and save it"
            ) from None


def calibrate(
    path: PathLike | None = None, *, batch: int | None = None, engine: Engine | None = None, sliced: bool = True
) -> Nanoseconds:
    """Times of this machine for batches of ``batch`` examples; read from ``path`` if it is there, else put there.

    ``batch``: 256, or what the file has; a file for another size or another machine is refused.

    BP is timed on random graphs with pairs of 2, 3 and 5 values and triples of 2, few and many factors, few and many
    sweeps, all variables free or a third of them observed; the five numbers are the non-negative least squares of the
    relative errors. About four seconds, after the kernels are compiled. Times of shared machines vary: compare orders,
    not digits.
    """
    if batch is not None:
        checked_whole("batch", batch)
    machine = f"{platform.machine()} {platform.processor() or platform.system()}, {torch.__version__}".strip()
    if path is not None and Path(path).exists():
        known = Nanoseconds.load(path)
        for what, stored, asked in (("batches of", known.batch, batch), ("the machine", known.machine, machine)):
            if asked is not None and stored != asked:
                raise ValueError(
                    f"{path}: these times are for {what} {stored}, not {asked}; give another path, or remove the file "
                    "to calibrate anew"
                )
        return replace(known, sliced=sliced)
    engine, batch = engine or Compiled(), 256 if batch is None else batch
    rows, seconds = [], []
    for graph, share in itertools.product(_graphs(), (0, 3)):
        observed = np.arange(graph.variables) % share == 0 if share else np.zeros(graph.variables, dtype=bool)
        parts = [float(part.sweep(graph, None, observed)) for part in (MessageCost(), CellCost())]
        cut = float(Nanoseconds(slice=1.0).slicing(graph, None, observed))
        for sweeps in (SHORT, LONG):
            rows.append([sweeps * parts[0], sweeps * parts[1], sweeps, 1.0, cut])
            seconds.append(_seconds(graph, observed, sweeps, batch, engine))
    found = _fit(np.array(rows, dtype=np.float64), np.array(seconds) * 1e9 / batch)
    message, cell, sweep, run, cut = (float(f"{value:.4g}") for value in found)
    model = Nanoseconds(sliced, message, cell, sweep, run, cut, machine, batch)
    if path is not None:
        model.save(path)
    return model


def _graphs() -> list[FactorGraph]:
    return [
        random_mrf(40, 60, seed=0),
        random_mrf(40, 600, seed=0),
        random_mrf(40, 200, states=3, seed=0),
        random_mrf(40, 200, states=5, seed=0),
        random_mrf(40, 200, arity=3, seed=0),
    ]


def _seconds(graph: FactorGraph, observed: NDArray[np.bool_], sweeps: int, batch: int, engine: Engine) -> float:
    """The median time of a call."""
    potentials = TablePotentials.random(graph, seed=0, scale=0.3)()
    tables = {name: table.detach() for name, table in potentials.items()}
    values = np.where(observed, np.random.default_rng(0).integers(0, 2, (batch, graph.variables)), FREE)
    method = BP(iterations=sweeps, tolerance=0.0, engine=engine)
    method(graph, tables, values)  # it may compile
    return median_seconds(lambda: method(graph, tables, values), REPEATS)


def median_seconds(
    function: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median of ``repeats`` calls by ``clock``."""
    taken = []
    for _ in range(max(1, repeats)):
        began = clock()
        function()
        taken.append(clock() - began)
    return statistics.median(taken)


def _fit(rows: Floats, nanoseconds: Floats) -> Floats:
    from scipy.optimize import nnls

    found: Floats = nnls(rows / nanoseconds[:, None], np.ones(len(rows)))[0]
    return found
