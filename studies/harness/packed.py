"""Finished runs in one small file beside the results, so that a study goes on where only these were kept.

In: folders of runs (:mod:`studies.harness.runs`). Out: a zip file, the same bytes for the same runs; and back. Arrays
and checkpoints are left out: they are large, and a study whose runs are arrays is run whole. Nothing in a pack says
which code its runs were made with: where that has changed what is judged, the pack is to be deleted.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from loopwise.formats import atomic_write_bytes
from studies.harness.runs import PROTOCOL

PACK = "runs.zip"
KINDS = ("json", "loopwise", "txt")
LARGEST = 1 << 20  # bytes of a file that is packed
_MADE = (1980, 1, 1, 0, 0, 0)  # the same for all: what counts is what a file holds


def pack_runs(runs: Path, path: Path) -> int:
    """Writes what ``runs`` and its folders hold to ``path``; how many files. Nothing is written where there are none.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "a.json").write_text("{}"), (folder / PROTOCOL).write_text("{}")
        ...     pack_runs(folder, folder / PACK), unpack_runs(folder / PACK, folder / "again")
        (2, 2)
    """
    files = sorted(_to_pack(runs))
    if all(file.name == PROTOCOL for file in files):
        return 0
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as pack:
        for file in files:
            info = zipfile.ZipInfo(file.relative_to(runs).as_posix(), _MADE)
            info.compress_type = zipfile.ZIP_DEFLATED
            pack.writestr(info, file.read_bytes())
    with atomic_write_bytes(path) as stream:
        stream.write(buffer.getvalue())
    return len(files)


def _to_pack(runs: Path) -> Iterator[Path]:
    for kind in KINDS:
        yield from (file for file in runs.rglob(f"*.{kind}") if file.stat().st_size <= LARGEST)


def unpack_runs(path: Path, runs: Path) -> int:
    """Lays the runs of a pack into ``runs`` and its folders; how many. Those that are there stay, and a folder that
    holds runs of another protocol or seed stays as it is."""
    if not path.exists():
        return 0
    count = 0
    with zipfile.ZipFile(path) as pack:
        names = pack.namelist()
        for part in sorted({PurePosixPath(name).parent for name in names}):
            folder, protocol = runs / part, str(part / PROTOCOL)
            known = folder / PROTOCOL
            if known.exists() and (protocol not in names or pack.read(protocol) != known.read_bytes()):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for name in (name for name in names if PurePosixPath(name).parent == part and not (runs / name).exists()):
                with atomic_write_bytes(runs / name) as stream:
                    stream.write(pack.read(name))
                count += 1
    return count
