"""What benchmark scripts share: options, loading models, progress, saving results, the last line of output.

In: a data folder and options. Out: instances that build fresh graphs, files written whole or not at all, one
line of JSON at the end of standard output (the progress bar goes to standard error).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loopwise.formats import TableModel, atomic_write, read_evidence, read_model
from loopwise.graph import FactorGraph

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.append(str(REPOSITORY))  # the studies, whose data and peers some benchmarks share
DEFAULT_DATA = REPOSITORY.parent / "shared" / "data"

Floats = NDArray[np.float64]


def option_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, help="folder of the data collection (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a small part, in under a minute; saves nothing")
    return parser


def folder_in(data: Path, *parts: str) -> Path:
    """A folder of the data collection, or a one-sentence end of the script."""
    folder = data.joinpath(*parts)
    if not folder.is_dir():
        raise SystemExit(f"no folder {folder}: give the folder of the data collection with --data")
    return folder


@dataclass(frozen=True)
class Instance:
    """A model and what is observed of it."""

    name: str
    model: TableModel
    evidence: dict[int, int] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """``Grids`` for ``Grids_11``."""
        return self.name.rsplit("_", 1)[0]

    def problem(self) -> tuple[FactorGraph, dict[str, Floats]]:
        """A new graph, with nothing computed and kept from earlier runs, and its log-potentials."""
        return FactorGraph.from_factors(self.model.cardinalities, self.model.log_factors())

    def state_variable(self) -> NDArray[np.int64]:
        """The variable of each state, ``[states]``, as ``Beliefs.states`` has them."""
        return np.repeat(np.arange(self.model.variables), self.model.cardinalities)

    def observed(self) -> NDArray[np.bool_]:
        """Which variables have evidence, ``[variables]``."""
        observed = np.zeros(self.model.variables, dtype=np.bool_)
        observed[list(self.evidence)] = True
        return observed


def load_instance(model_path: Path, evidence_path: Path | None = None) -> Instance:
    """The instance of a ``.uai`` or ``.fg`` file, plain or ``.gz``, named like the file."""
    model = read_model(model_path)
    evidence = read_evidence(evidence_path, model.cardinalities) if evidence_path else {}
    name = model_path.name.removesuffix(".gz")
    return Instance(name.rsplit(".", 1)[0], model, evidence)


@contextmanager
def progress_bar(total: int, done: int = 0) -> Iterator[Any]:
    """A bar on standard error; the function it gives takes ``description`` and ``advance``."""
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total, completed=done)

        def update(description: str | None = None, advance: int = 0) -> None:
            progress.update(task, description=description, advance=advance)

        yield update


def load_json(path: Path) -> Any:
    """What an earlier run saved, or None."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def save_json(path: Path, value: object) -> None:
    """Saves ``value``; a reader (or a run that is stopped) never sees half a file."""
    save_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def save_text(path: Path, text: str) -> None:
    """Like :func:`save_json`, for text; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as out:
        out.write(text)


def print_summary(summary: dict[str, object]) -> None:
    """The last line of output."""
    print(json.dumps(summary, allow_nan=False), flush=True)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """A Markdown table; the first ``text_columns`` are set left, the others, numbers, right."""
    rule = [":--" if column < text_columns else "--:" for column in range(len(header))]
    lines = []
    for row in (header, rule, *rows):
        if len(row) != len(header):
            raise ValueError(f"a row has {len(row)} cells where the header has {len(header)}: {list(row)}")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"
