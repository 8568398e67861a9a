"""``loopwise reproduce`` says where the studies are, whatever stands behind it."""

from __future__ import annotations

import pytest

from loopwise.cli.main import app
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


@pytest.mark.parametrize("line", ["", "erma", "erma --full --minutes 3 --out x", "parser --help"])
def test_the_command_names_the_new_place(line: str) -> None:
    assert_one_sentence(invoke("reproduce", *line.split()), "python -m studies")


def test_it_is_not_listed() -> None:
    assert "reproduce" not in succeed("--help").stdout
