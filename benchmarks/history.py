"""Ratios of the benchmarks, commit by commit: measured, kept in history.json, drawn for the page of speed.

    python benchmarks/history.py                       # draws what is kept
    python benchmarks/history.py --run latency bp_grid # measures these at this commit first (an idle machine!)

Ratios against another program in the same process move far less between machines than times do. Last line of output:
JSON with the ratios of the last entry.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loopwise.formats import atomic_write
from loopwise.plot.style import COLOURS, MARKERS, new_axes, plain, save

HERE = Path(__file__).resolve().parent
KEPT = HERE / "history.json"
PICTURE = HERE.parent / "docs" / "images" / "speed-history.svg"


def read(path: Path = KEPT) -> dict[str, Any]:
    """The history; what each ratio is, and the entries in order."""
    found: dict[str, Any] = json.loads(path.read_text())
    for entry in found["entries"]:
        unknown = sorted({*entry["ratios"]} - {*found["ratios"]})
        if unknown:
            raise SystemExit(
                f"{path.name}: commit {entry['commit']} has the ratio {unknown[0]!r}, which is not declared"
            )
    return found


def with_entry(history: dict[str, Any], commit: str, date: str, ratios: dict[str, float]) -> dict[str, Any]:
    """The history with ratios of a commit: beside what is known of it, or at the end."""
    entries = [dict(entry) for entry in history["entries"]]
    mine = next((entry for entry in entries if entry["commit"] == commit), None)
    if mine is None:
        entries.append({"commit": commit, "date": date, "ratios": dict(ratios)})
    else:
        mine["ratios"] = {**mine["ratios"], **ratios}
    return {**history, "entries": entries}


def measure(history: dict[str, Any], scripts: Sequence[str], options: Sequence[str]) -> dict[str, float]:
    """Runs scripts; the ratios that the history keeps of their last lines."""
    found: dict[str, float] = {}
    for script in scripts:
        wanted = {name: told["key"] for name, told in history["ratios"].items() if told["script"] == script}
        if not wanted:
            known = sorted({told["script"] for told in history["ratios"].values()})
            raise SystemExit(f"nothing of {script} is kept; there are {', '.join(known)}")
        done = subprocess.run([sys.executable, str(HERE / f"{script}.py"), *options], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{script} ended with code {done.returncode}; nothing was kept")
        last = json.loads(done.stdout.strip().splitlines()[-1])
        found |= {name: round(float(last[key]), 2) for name, key in wanted.items() if last.get(key) is not None}
    return found


def draw(history: dict[str, Any], path: Path) -> None:
    """A line for each ratio over the commits that have it."""
    axes = new_axes(7.0, 3.8)
    plain(axes)
    entries = history["entries"]
    for number, (name, told) in enumerate(history["ratios"].items()):
        places = [place for place, entry in enumerate(entries) if name in entry["ratios"]]
        values = [entries[place]["ratios"][name] for place in places]
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.plot(places, values, color=colour, marker=marker, linewidth=1.8, label=told["says"])
    axes.axhline(1.0, color="#999999", linewidth=1, linestyle=":")
    axes.set_xticks(range(len(entries)), [f"{entry['commit']}\n{entry['date']}" for entry in entries], fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.set_ylabel("times as fast")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
    save(axes, path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", nargs="+", default=[], metavar="SCRIPT", help="measure these now: bp_grid, latency, ..."
    )
    parser.add_argument("--quick", action="store_true", help="run them quickly, and keep nothing")
    given = parser.parse_args(arguments)
    history = read()
    if given.run:
        ratios = measure(history, given.run, ["--quick"] if given.quick else [])
        if given.quick:
            print(json.dumps(ratios))
            return
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, check=True, capture_output=True, text=True
        ).stdout.strip()
        history = with_entry(history, commit, datetime.date.today().isoformat(), ratios)
        with atomic_write(KEPT) as stream:
            stream.write(written(history))
    draw(history, PICTURE)
    print(json.dumps(history["entries"][-1]["ratios"]))


def written(history: dict[str, Any]) -> str:
    """As the file has it: a line for each ratio and each entry."""
    ratios = ",\n".join(f"    {json.dumps(name)}: {json.dumps(told)}" for name, told in history["ratios"].items())
    entries = ",\n".join(f"    {json.dumps(entry)}" for entry in history["entries"])
    return f'{{\n  "ratios": {{\n{ratios}\n  }},\n  "entries": [\n{entries}\n  ]\n}}\n'


if __name__ == "__main__":
    main()
