"""Where a command writes: named by the user or by its default, and looked at before the work begins.

In: the option ``--out`` and a default. Out: a path, or an ``OSError`` that says why nothing could be written there.
"""

from __future__ import annotations

from pathlib import Path

STANDARD_OUTPUT = Path("-")


def target_of(out: Path | None, default: Path = STANDARD_OUTPUT) -> Path:
    """A path that can be written to, as far as one can tell beforehand."""
    from loopwise.formats.files import check_target

    target = default if out is None else out
    check_target(target)
    return target
