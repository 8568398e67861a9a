"""Numbers so small that they have lost digits: processors take many times as long over them.

In: code that does not need them. Out: nothing. Below the stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tiny_as_zero() -> Iterator[None]:
    """In this thread, of kernels and torch alike, what is nearer to 0 than normal numbers are (1e-38 in single
    precision) counts as 0 until the end; then again as it did before. Where a processor cannot do so, nothing changes.

    >>> import torch
    >>> with tiny_as_zero():
    ...     small = torch.tensor(2e-38) * 0.25
    >>> float(small) in (0.0, float(torch.tensor(2e-38) * 0.25))
    True
    """
    before = is_flushing()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def is_flushing() -> bool:
    """Whether such numbers count as 0 in this thread."""
    return float(torch.tensor(2e-38) * 0.25) == 0.0
