"""A bar where somebody watches."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import pytest

import loopwise as lw
from loopwise.learn import fit
from oracles.fit_cases import data, fresh

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals here")
def test_a_bar_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    control, terminal = os.openpty()
    shown: list[bytes] = []

    def watch() -> None:
        with contextlib.suppress(OSError):  # the terminal is closed
            while piece := os.read(control, 1 << 16):
                shown.append(piece)

    reader = threading.Thread(target=watch, daemon=True)
    reader.start()
    monkeypatch.setenv("TERM", "xterm-256color")
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        fit(fresh(), data(32), MSE, epochs=3, batch=32)
    reader.join(timeout=10)
    os.close(control)
    text = b"".join(shown).decode()
    assert "epoch 3" in text and "\x1b[" in text
