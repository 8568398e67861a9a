"""F1 of entities against an independent reading of the tags, seqeval (where installed), and through changes."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw

IOB = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IOBES = ("O", *(f"{prefix}-{kind}" for kind in ("X", "Y") for prefix in "BIES"))


def spans(names: list[str]) -> set[tuple[str, int, int]]:
    """An independent reading: types as letters, cuts marked between tokens, runs found by a regular expression."""
    text = ""
    for before, after in pairwise(["O", *names]):
        joined = before[0] in "BI" and after[0] in "IE" and before[1:] == after[1:]
        text += ("" if joined else "|") + (
            "." if after == "O" else chr(ord("a") + sorted({n[2:] for n in names}).index(after[2:]))
        )
    found, token = set(), 0
    for run in text.split("|")[1:]:
        if re.fullmatch(r"[a-z]+", run):
            found.add((run[0], token, token + len(run)))
        token += len(run)
    return found


def f1(mine: set[object], gold: set[object]) -> float:
    return 2 * len(mine & gold) / (len(mine) + len(gold)) if mine or gold else 1.0


def test_hand_worked() -> None:
    metric = lw.metric.EntityF1Score(tags=IOB)
    gold = torch.tensor([1, 2, 0, 3, 1, 2])  # PER 0-2, LOC 3-4, PER 4-6
    assert float(metric(gold, gold)) == 1.0
    mine = torch.tensor([1, 2, 0, 4, 2, 2])  # PER 0-2, LOC 3-4 (begun by I), PER 4-6 (another type begins one)
    assert float(metric(mine, gold)) == 1.0
    shorter = torch.tensor([1, 0, 0, 3, 1, 2])
    assert float(metric(shorter, gold)) == pytest.approx(2 * 2 / 6)
    nothing = torch.zeros(6, dtype=torch.int64)
    assert float(metric(nothing, nothing)) == 1.0 and float(metric(nothing, gold)) == 0.0


@pytest.mark.parametrize("tags", [IOB, IOBES])
@given(st.data())
def test_against_another_reading_and_through_changes(tags: tuple[str, ...], data: st.DataObject) -> None:
    metric = lw.metric.EntityF1Score(tags=tags)
    tag = st.integers(0, len(tags) - 1)
    gold = data.draw(st.lists(tag, min_size=1, max_size=9))
    state = data.draw(st.lists(tag, min_size=len(gold), max_size=len(gold)))
    tracker = metric.track(gold, list(state))

    def value(values: list[int]) -> float:
        letters = {name: name for name in tags}
        read = [spans_of([letters[tags[number]] for number in numbers]) for numbers in (values, gold)]
        return f1(*read)

    for _ in range(6):
        expected = value(state)
        assert float(metric(torch.tensor(state), torch.tensor(gold))) == pytest.approx(expected)
        assert tracker.value() == pytest.approx(expected)
        place, new = data.draw(st.integers(0, len(gold) - 1)), data.draw(tag)
        after = [*state[:place], new, *state[place + 1 :]]
        assert tracker.gain([(place, state[place], new)]) == pytest.approx(value(after) - expected, abs=1e-12)
        tracker.change(place, state[place], new)
        state = after


def spans_of(names: list[str]) -> set[object]:
    """(type, first, end), with types by name rather than by letter."""
    kinds = sorted({name[2:] for name in names})
    return {(kinds[ord(letter) - ord("a")], first, end) for letter, first, end in spans(names)}


def test_seqeval() -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    generator = np.random.default_rng(0)
    for tags in (IOB, IOBES):
        metric = lw.metric.EntityF1Score(tags=tags, reduction=lw.loss.Pooled())
        mine, gold = (generator.integers(0, len(tags), (20, 12)) for _ in range(2))
        names = [[[tags[number] for number in row] for row in side] for side in (gold, mine)]
        assert float(metric(torch.tensor(mine), torch.tensor(gold))) == pytest.approx(seqeval.f1_score(*names))


def test_unknown_tags() -> None:
    with pytest.raises(ValueError, match="tag 'X-PER' is neither"):
        lw.metric.EntityF1Score(tags=("O", "X-PER"))
    metric = lw.metric.EntityF1Score(tags=IOB)
    with pytest.raises(ValueError, match="tag 5 is unknown: the metric names tags 0 to 4"):
        metric(torch.tensor([0, 5]), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="tag 7 is unknown"):
        metric.track([0, 7], [0, 0])


def test_tokens_that_are_not_scored_are_outside() -> None:
    metric = lw.metric.EntityF1Score(tags=IOB)
    assert float(metric(torch.tensor([1, 2, 2, 1]), torch.tensor([1, 2, -1, -1]))) == 1.0
