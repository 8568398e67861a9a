"""The papers' numbers, as data, are those that were typed from print: by digest, and as the kept results have them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from studies.harness.published import published

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
# Of the tables as they stood in the modules erma_published.py, parser_published.py, domke_table1_published.py and
# samplerank_table1.py to _table3.py before they became data.
DIGESTS = {
    "erma": "b9cfbf6e90ed45daccfdc496963f8999e62bf24dd4573cd2f809d0a9ff9dd44a",
    "parser": "8cb272c644aec0dbddbf0b8f3b72d031b2149db79cfd6e4393d9a72a029b8679",
    "domke": "f3130897e9f60729eddf56caca097edc21ac42e434d6faab4692df550e841f2b",
    "samplerank": "36cbd7e9d52f04172293938a76096f22f7807462e63950530ce593ccf88348e3",
}


def rows_of(paper: str) -> Iterator[list[Any]]:
    """The numbers of a paper, a row each, as they are digested."""
    tables = published(paper)
    if paper == "erma":
        yield from (["true", test, loss] for test, loss in tables["true_loss"].items())
        for test, trains in tables["table3"].items():
            yield from (["3", test, train, one["loss"], one.get("record")] for train, one in trains.items())
        for number in "45":
            for test, goals in tables[f"table{number}"].items():
                for goal, columns in goals.items():
                    yield from ([number, test, goal, at, one["loss"], one.get("record")] for at, one in columns.items())
        for test, targets in tables["table6"].items():
            yield from (["6", test, target, loss] for target, loss in targets.items())
    elif paper == "parser":
        for loss, inferences in tables["table1"].items():
            yield from (["1", loss, name, [one["dev"], one["test"]]] for name, one in inferences.items())
        yield from (["2", language, row] for language, row in tables["table2"]["languages"].items())
        yield from (["2", name, tables["table2"][name]] for name in ("average", "columns"))
    elif paper == "domke":
        for images, losses in tables["table1"].items():
            for row, columns in losses.items():
                yield from ([images, row, name, one.get("train"), one["test"]] for name, one in columns.items())
    else:
        yield from (["1", row, [one["f1"], one["seconds"]]] for row, one in tables["table1"].items())
        for row, columns in tables["table2"].items():
            yield from (["2", row, name, [one["error"], one["sd"]]] for name, one in columns.items())
        yield from (["3", row, [one["test_a"], one["test_b"], one["seconds"]]] for row, one in tables["table3"].items())


@pytest.mark.parametrize("paper", DIGESTS)
def test_no_number_was_lost_or_changed(paper: str) -> None:
    rows = json.dumps(sorted(rows_of(paper), key=str))
    assert hashlib.sha256(rows.encode()).hexdigest() == DIGESTS[paper]


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for part in value.values():
            yield from numbers_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers_in(part)
    elif isinstance(value, float | int):
        yield float(value)
    elif isinstance(value, str) and value.count("-") == 2 and value[0].isdigit():
        yield float(value.split("-")[0])  # models won


@pytest.mark.parametrize("paper", DIGESTS)
def test_kept_results_stand_beside_printed_numbers(paper: str) -> None:
    """Whatever the results call published is a number of the paper, or (shares, averages) made of some."""
    known = {round(number, 6) for number in numbers_in(published(paper))}
    stored = json.loads((RESULTS / paper / "results.json").read_text(encoding="utf-8"))
    shown = [cell for cell in stored["cells"] if cell["published"] is not None]
    strange = [
        cell
        for cell in shown
        if round(cell["published"], 6) not in known
        and (cell["row"] != "average" and cell["column"] != "share of likelihood's")
    ]
    assert shown and not strange, strange[:3]
