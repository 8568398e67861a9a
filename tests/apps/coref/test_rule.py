"""The rule of thumb, on texts worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.apps.coref.mentions import describe
from loopwise.apps.coref.rule import rule_entities
from loopwise.formats.coref import read_coref


@pytest.mark.parametrize(
    ("words", "entities"),
    [
        (["Mary", "John", "she", "he", "Mary"], [0, 1, 0, 1, 0]),  # the nearest of that gender
        (["Arden", "it", "Brome", "it"], [0, 0, 1, 1]),  # the last one named
        (["I", "you", "me", "your"], [0, 1, 0, 1]),  # one I and one you
        (["it", "it"], [0, 1]),  # nobody was named: each is alone
        (["Kim", "he", "she"], [0, 0, 0]),  # no gender known: the last one named
    ],
)
def test_worked_by_hand(words: list[str], entities: list[int], tmp_path: Path) -> None:
    lines = "".join(f"{number}\t{word}\t({number})\n" for number, word in enumerate(words))
    (tmp_path / "text").write_text(f"# begin document a\n{lines}# end document\n")
    (document,) = read_coref(tmp_path / "text")
    assert rule_entities(describe(document, {})).tolist() == entities
