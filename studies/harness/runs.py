"""Finished runs of a study, a file each, from which an interrupted one goes on.

In: a folder, what the runs depend on. Out: files, written whole or not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.formats import atomic_write, atomic_write_bytes

RUNS = "runs"  # the folder, in that of the results
PROTOCOL = "protocol.txt"
Arrays = Mapping[str, NDArray[Any]]

KINDS = ("json", "npz", "checkpoint", "loopwise", "txt")  # of files that runs leave


def check_runs(folder: Path, identity: Mapping[str, Any], keep: bool) -> None:
    """Makes ``folder`` that of the study ``identity``: its protocol, seed and whatever else its runs depend on.

    Runs of another study must not mix with these: they are deleted, or refused where they are to be kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, wanted = folder / PROTOCOL, json.dumps(identity, sort_keys=True)
    if path.exists() and path.read_text(encoding="utf-8") != wanted:
        if keep:
            raise ValueError(
                f"{folder} holds runs of another protocol or seed; choose another folder, or delete it (and the pack "
                "of runs beside the results, if these came from there)"
            )
        for old in (path for kind in KINDS for path in folder.glob(f"*.{kind}") if path.name != PROTOCOL):
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


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Writes arrays to one file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    with atomic_write_bytes(path) as stream:
        stream.write(buffer.getvalue())


def load_arrays(path: Path) -> Arrays:
    """What :func:`save_arrays` wrote; nothing in the file is run."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, EOFError, KeyError) as problem:
        raise ValueError(f"{path} cannot be read ({problem}); delete it to have it computed again") from None
