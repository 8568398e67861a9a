"""What notebooks show: objects that draw themselves, and bars.

In: an object, how far something is. Out: HTML. Stage: below all others. Pictures are drawn by :mod:`loopwise.plot`,
which is found by its name when the first is asked for: nothing here, or in the core, imports it.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

OFTEN = 0.2  # seconds between two looks at a bar


class Shown:
    """Something that a notebook shows as :func:`loopwise.plot.html.html_of` draws it."""

    def _repr_html_(self) -> str:
        drawn: str = importlib.import_module("loopwise.plot.html").html_of(self)
        return drawn


def in_notebook() -> bool:
    """Whether this runs in a notebook's kernel. Nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class NotebookBar:
    """A bar in the output of a cell; it is gone when the work is done."""

    def __init__(self, total: float) -> None:
        display = importlib.import_module("IPython.display")
        self._html = display.HTML
        self._total, self._began, self._last = max(total, 1e-12), time.monotonic(), 0.0
        self._handle: Any = display.display(self._html(self._drawn(0.0, "begins")), display_id=True)

    def tell(self, done: float, text: str) -> None:
        """So much is done, and this is happening."""
        now = time.monotonic()
        if now - self._last >= OFTEN:
            self._last = now
            self._handle.update(self._html(self._drawn(done, text)))

    def close(self) -> None:
        """Takes the bar away."""
        self._handle.update(self._html(""))

    def _drawn(self, done: float, text: str) -> str:
        from html import escape

        seconds = time.monotonic() - self._began
        return (
            f'<progress value="{min(done, self._total):.6g}" max="{self._total:.6g}" style="width:16em"></progress> '
            f"{escape(text)} <small>{seconds:.0f} s</small>"
        )
