"""Counts of all chunks, and the tables they make.

In: the folder of runs. Out: sums by setting and contender; cells.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from loopwise.apps.decoder import interval
from studies.decoder.counting import Counted
from studies.decoder.protocol import BP_OSD, CIRCUIT, GROSS, RELAY, WORDS, DecoderProtocol, Setting, jobs
from studies.harness.published import published
from studies.harness.results import Cell
from studies.harness.runs import read_run

RATE, TIME, BITS = "failures a shot", "core ms a shot", "bit errors a bit"
LOW, HIGH = "95 % from", "to"
NORMAL = 1.96


BASE = {GROSS: BP_OSD, CIRCUIT: RELAY}  # whom others are compared with


def totals(folder: Path, protocol: DecoderProtocol) -> dict[Setting, Counted]:
    """Sums over the chunks there are; ``paired``: shots that the one compared with decoded, too, ``only`` and ``not``:
    failures among them of this one and not of that, and the other way round."""
    chunks: dict[tuple[Setting, int], dict[str, dict[str, Any]]] = {}
    for job in jobs(protocol):
        chunks.setdefault((job.setting, job.number), {}).update(read_run(job.path(folder)) or {})
    found: dict[Setting, Counted] = {}
    for (setting, _), rows in chunks.items():
        base = rows.get(BASE.get(setting.kind, ""))
        for name, counts in rows.items():
            mine = found.setdefault(setting, {}).setdefault(name, {})
            for key, value in {**counts, **(_paired(counts, base) if base else {})}.items():
                if key != "failed":
                    mine[key] = mine.get(key, 0.0) + value
    return found


def _paired(mine: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    both = min(mine["shots"], base["shots"])
    wrong, theirs = ({shot for shot in one["failed"] if shot < both} for one in (mine, base))
    return {"paired": both, "only": len(wrong - theirs), "not": len(theirs - wrong)}


def cells(counted: dict[Setting, Counted]) -> list[Cell]:
    """A row for each contender."""
    return [
        cell
        for setting, rows in counted.items()
        for name, counts in rows.items()
        for cell in (_bit_cells if setting.kind == WORDS else _flip_cells)(setting, name, counts)
    ]


def _flip_cells(setting: Setting, name: str, counts: dict[str, float]) -> list[Cell]:
    shots = counts["shots"]
    rate = counts["failures"] / shots
    low, high = interval(int(counts["failures"]), int(shots))
    known = None
    if "circuit" in setting.kind and name == "relay-BP":
        relay = published("decoder")["relay"]
        known = relay["failures"] / relay["shots"]
    return [
        Cell(setting.name, name, RATE, rate, rate_error(counts["failures"], shots), int(shots), known),
        Cell(setting.name, name, LOW, low, None, int(shots)),
        Cell(setting.name, name, HIGH, high, None, int(shots)),
        Cell(setting.name, name, TIME, 1e3 * counts["seconds"] / shots, None, int(shots)),
    ]


def _bit_cells(setting: Setting, name: str, counts: dict[str, float]) -> list[Cell]:
    words, bits = counts["shots"], counts["of bits"]
    known = published("decoder")["bch_63_45"] if (setting.code, setting.level) == ("BCH_N63_K45", 6.0) else {}
    rate, error = counts["bits"] / bits, bit_error(counts)
    return [
        Cell(setting.name, name, BITS, rate, error, int(words), known.get(name)),
        Cell(setting.name, name, LOW, max(0.0, rate - NORMAL * error), None, int(words)),
        Cell(setting.name, name, HIGH, rate + NORMAL * error, None, int(words)),
        Cell(setting.name, name, "word errors a word", counts["failures"] / words, None, int(words)),
    ]


def rate_error(failures: float, shots: float) -> float:
    """The standard error of a rate.

    >>> round(rate_error(100, 10_000), 6)
    0.000995
    """
    rate = failures / shots
    return math.sqrt(max(rate * (1 - rate), 1 / shots) / shots)


def bit_error(counts: dict[str, float]) -> float:
    """The standard error of a bit error rate; bits of one word are not independent."""
    words = counts["shots"]
    mean = counts["bits"] / words
    spread = max(counts["squares"] / words - mean**2, 1 / words)
    return math.sqrt(spread / words) * words / counts["of bits"]
