"""Predictions of a saved system."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from oracles.fit_tables import FAST, invoke, succeed, weather


def test_outputs_need_no_column_and_order_does_not_matter(trained: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(weather(seed=2))))
    (tmp_path / "skies.csv").write_text("sky\n" + "".join(f"{row['sky'] or chr(34) * 2}\n" for row in rows))
    said = json.loads(succeed("predict", trained, tmp_path / "skies.csv", "--json").stdout)
    assert said["outputs"] == ["rain", "grass"] and len(said["rows"]) == 64
    for row, given in zip(said["rows"], rows, strict=True):
        for answer in row.values():
            assert sum(answer["probabilities"].values()) == pytest.approx(1)
            assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        if given["sky"]:
            assert row["rain"]["label"] == ("yes" if given["sky"] == "grey" else "no")
    (tmp_path / "full.csv").write_text(weather(seed=2))
    whole = json.loads(succeed("predict", trained, tmp_path / "full.csv", "--json").stdout)
    assert whole == said  # the answers in the table are not looked at


def test_unseen_labels_count_as_missing(train: Path, trained: Path, tmp_path: Path) -> None:
    """One strange cell does not lose the rest of the table: of an input, of an output, in all commands."""
    rows = weather(seed=1, spoil=False).splitlines()
    strange, plain = tmp_path / "strange.csv", tmp_path / "plain.csv"
    changed = [rows[0], "maybe,wet,grey,", "yes,wet,gray,", *rows[3:]]
    strange.write_text("\n".join(changed) + "\n")
    plain.write_text("\n".join([rows[0], ",wet,grey,", "yes,wet,,", *rows[3:]]) + "\n")
    for verb in (("evaluate", "--json"), ("predict",), ("predict", "--json")):
        told = succeed(verb[0], trained, strange, *verb[1:])
        assert told.stderr.count("warning: ") == 1 and "2 cells hold labels that training did not see" in told.stderr
        assert "line 2 ('maybe' in column 'rain'; the values are 'no', 'yes')" in told.stderr
        assert told.stdout == succeed(verb[0], trained, plain, *verb[1:]).stdout
    options = ("--outputs", "rain", "--hidden", "mood", "--out", tmp_path / "d.loopwise", *FAST)
    assert "2 cells hold labels" in succeed("fit", train, "--dev", strange, *options).stderr
    strange.write_text("rain,grass,sky\nmaybe,damp,grey\n")
    nothing = invoke("evaluate", trained, strange)
    assert nothing.exit_code == 2 and "nothing is scored" in nothing.stderr
