"""``loopwise card``: what a file says of itself; what is no file of ours is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

import loopwise as lw
from loopwise.cli.main import app


def test_a_card_as_a_page_and_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.loopwise"
    lw.System(lw.TablePotentials(lw.chain(3)), lw.BP(iterations=5)).save(path, card={"data": "a | b"})
    page = CliRunner().invoke(app, ["card", str(path)])
    assert page.exit_code == 0 and page.stdout.startswith("# System\n") and "| data | a \\| b |" in page.stdout
    told = json.loads(CliRunner().invoke(app, ["card", str(path), "--json"]).stdout)
    assert told["data"] == "a | b" and told["weights"] == 14 and told["budget"].startswith("BP(iterations=5")


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    for name in (path, tmp_path / "nowhere"):
        found = CliRunner().invoke(app, ["card", str(name)])
        assert found.exit_code != 0 and name.name in found.output and "Traceback" not in found.output
