"""``loopwise warm``: commands run on made-up data, so that their kernels are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopwise.cli import warm
from loopwise.cli.main import app
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


def test_a_command_is_run_on_made_up_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.fullmatch(r"tagger: [0-9.]+ s\n", succeed("warm", "tagger", "tagger").stdout)
    assert not list(tmp_path.iterdir())


def test_other_names_are_refused_before_anything_is_run() -> None:
    assert_one_sentence(
        invoke("warm", "tagger", "demos"), "nothing to compile for 'demos'", "there are infer, fit, tagger"
    )


def test_what_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ["tagger", "predict", "no", "no"]
    monkeypatch.setitem(warm._JOBS, "tagger", lambda folder: iter([wrong]))
    assert_one_sentence(invoke("warm", "tagger"), "loopwise tagger could not be run on made-up data", "no such file")
