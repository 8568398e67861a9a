"""Studies in one process: a new one takes seconds to start. Those that are about processes ask for two."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody says how many, runs come one after another, here."""
    monkeypatch.setattr("studies.harness.study.available_threads", lambda: 1)
