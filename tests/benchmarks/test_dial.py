"""The dial's own arithmetic: what a parse says of its mistakes, sentences picked out, noise, halves, the table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from loopwise.apps.parser.arcs import Arcs
from loopwise.apps.parser.model import Parses
from loopwise.apps.parser.vocabulary import SentenceArrays

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import dial_images
import dial_parser
from dial_rows import Dial, Row, Setting


def small() -> tuple[SentenceArrays, Parses]:
    """Two sentences, of two words and of one; columns are border, root, words, border."""
    start = np.array([0, 5, 9])
    heads = np.array([-1, -1, 2, 0, -1, -1, -1, 0, -1], np.int32)
    corpus = SentenceArrays(np.zeros((5, 9), np.uint64), start, heads, np.full(9, -1, np.int32))
    arcs = Arcs(np.array([0, 3, 4]), np.array([0, 2, 0, 0], np.int32), np.array([1, 1, 2, 1], np.int32))
    decoded = np.array([-1, -1, 0, 0, -1, -1, -1, 0, -1])
    return corpus, Parses(arcs, np.array([0.7, 0.3, 0.95, 1.0]), decoded, np.zeros(2, bool))


def test_mistakes_and_doubts_of_each_sentence() -> None:
    corpus, parses = small()
    assert dial_parser.mistakes(corpus, parses.heads).tolist() == [1.0, 0.0]
    assert dial_parser.error(corpus, parses.heads) == 100 / 3
    expected = [[0.3 + 0.05, 1.0, 0.3, 2.0], [0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(dial_parser.doubts(corpus, parses), expected, atol=1e-12)


def test_arcs_of_some_sentences() -> None:
    _, parses = small()
    some = dial_parser.picked(parses.arcs, np.array([1]))
    assert (some.start.tolist(), some.heads.tolist(), some.mods.tolist()) == ([0, 1], [0], [1])
    both = dial_parser.picked(parses.arcs, np.array([0, 1]))
    assert np.array_equal(both.start, parses.arcs.start) and np.array_equal(both.heads, parses.arcs.heads)


def test_noise_is_estimated_and_halves_keep_what_they_can() -> None:
    labels = np.kron(np.random.default_rng(0).integers(0, 2, (2, 6, 6)), np.ones((10, 10), int))
    made = dial_images.noisy(labels, 0)
    for place, size in enumerate(dial_images.NOISE):
        # The truth is log-odds: (seen - 1/2) / size^2, whose slope in the label is 1 / size^2.
        odds = made.odds[place, 0].numpy()
        slope = odds[labels[place] == 1].mean() - odds[labels[place] == 0].mean()
        assert abs(slope * size**2 - 1) < 0.25
    half = made.halved()
    assert half.size == (30, 30) and np.array_equal(np.kron(half.labels, np.ones((2, 2), int)), labels)
    torch.testing.assert_close(half.odds[0, 0, 0, 0], made.odds[0, 0, :2, :2].mean())


def test_rates_and_their_table() -> None:
    made: list[str] = []
    settings = [Setting("a", "1", lambda: made.append("a"), 3.0), Setting("b", "2", lambda: made.append("b"), 4.0)]
    dial = Dial("title", "things", "wrong, %", 10, settings, {})
    rows = dial.timed(2)
    assert made == ["a", "b"] * 3 and [row.error for row in rows] == [3.0, 4.0] and all(row.rate > 0 for row in rows)
    table = dial.table([Row("a", "1", 10.0, 3.0, {}), Row("b", "2", 25.0, 4.0, {})])
    assert "| b | 2 | 25.0 | 2.50 | 4.00 |" in table
