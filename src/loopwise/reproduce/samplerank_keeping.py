"""Finished runs of a table, a JSON file each, from which an interrupted study goes on.

In: a folder, what the runs depend on. Out: files, written whole or not at all. Shared by the tables of the SampleRank
paper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopwise.formats import atomic_write

PROTOCOL = "protocol.json"


def take_folder(runs: Path, identity: Mapping[str, Any]) -> None:
    """Makes ``runs`` the folder of the study ``identity``.

    Runs of another protocol, seed or data are deleted: they must not mix with these.
    """
    runs.mkdir(parents=True, exist_ok=True)
    path, wanted = runs / PROTOCOL, json.dumps(identity, sort_keys=True)
    if path.exists() and path.read_text(encoding="utf-8") != wanted:
        for old in runs.glob("*.json"):
            old.unlink()
    with atomic_write(path) as stream:
        stream.write(wanted)


def write_run(path: Path, found: Mapping[str, Any]) -> None:
    """Keeps a finished run."""
    with atomic_write(path) as stream:
        json.dump(found, stream)


def read_run(path: Path) -> dict[str, Any] | None:
    """A run, None if it is not finished."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def file_name(*parts: object) -> str:
    """A name of a file that any system takes, from names with any letters."""
    words = "-".join(str(part) for part in parts).lower()
    return "".join(letter if letter.isalnum() or letter == "." else "-" for letter in words) + ".json"
