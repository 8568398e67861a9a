"""String comparisons against slow, plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe.kernels import strings

WORDS = ["", "a", "ab", "ba", "martha", "marhta", "dixon", "dicksonx", "dwayne", "duane", "jellyfish", "smellyfish"]


def packed(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    letters = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32).copy()
    start = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return letters, start


def all_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    one, other = np.divmod(np.arange(count * count), count)
    return one, other


def plain_jaro_winkler(one: str, other: str) -> float:
    if not one or not other:
        return float(one == other)
    window = max(max(len(one), len(other)) // 2 - 1, 0)
    taken: list[int] = []
    mine = ""
    for place, letter in enumerate(one):
        near = range(max(0, place - window), min(len(other), place + window + 1))
        there = next((spot for spot in near if other[spot] == letter and spot not in taken), None)
        if there is not None:
            taken.append(there)
            mine += letter
    theirs = "".join(other[there] for there in sorted(taken))
    found = len(mine)
    if not found:
        return 0.0
    moved = sum(a != b for a, b in zip(mine, theirs, strict=True)) // 2
    jaro = (found / len(one) + found / len(other) + (found - moved) / found) / 3
    common = 0
    while common < min(4, len(one), len(other)) and one[common] == other[common]:
        common += 1
    return jaro + 0.1 * common * (1 - jaro)


def plain_levenshtein(one: str, other: str) -> float:
    table = np.zeros((len(one) + 1, len(other) + 1))
    table[:, 0], table[0, :] = np.arange(len(one) + 1), np.arange(len(other) + 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1, j + 1] = min(table[i, j] + (a != b), table[i, j + 1] + 1, table[i + 1, j] + 1)
    return 1.0 - table[-1, -1] / max(len(one), len(other), 1)


def random_texts(count: int, longest: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list("abcdé中"), random.integers(0, longest))) for _ in range(count)]


@pytest.mark.parametrize("texts", [WORDS, random_texts(25, 9, 0)])
def test_jaro_winkler_is_that_of_its_definition(texts: list[str]) -> None:
    letters, start = packed(texts)
    one, other = all_pairs(len(texts))
    out = np.zeros(len(one))
    strings.jaro_winkler(letters, start, one, other, out)
    expected = [plain_jaro_winkler(texts[i], texts[j]) for i, j in zip(one, other, strict=True)]
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_published_values_of_jaro_winkler() -> None:
    letters, start = packed(["martha", "marhta", "dixon", "dicksonx", "dwayne", "duane"])
    out = np.zeros(3)
    strings.jaro_winkler(letters, start, np.array([0, 2, 4]), np.array([1, 3, 5]), out)
    np.testing.assert_allclose(out, [0.9611, 0.8133, 0.84], atol=1e-4)


@pytest.mark.parametrize("texts", [WORDS, random_texts(20, 9, 1), random_texts(8, 150, 2), ["ab" * 32, "ba" * 32]])
def test_levenshtein_is_that_of_the_table(texts: list[str]) -> None:
    letters, start = packed(texts)
    alphabet, dense = np.unique(letters, return_inverse=True)
    one, other = all_pairs(len(texts))
    out = np.zeros(len(one))
    strings.levenshtein(dense.astype(np.int64), start, len(alphabet), one, other, out)
    expected = [plain_levenshtein(texts[i], texts[j]) for i, j in zip(one, other, strict=True)]
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_words_are_those_of_split() -> None:
    texts = ["", "  ", "one", " two  words ", "a b c"]
    letters, start = packed(texts)
    counts, bounds = strings.word_bounds(letters, start)
    whole = "".join(texts)
    for place, text in enumerate(texts):
        mine = [whole[a:b] for a, b in bounds[counts[place] : counts[place + 1]]]
        assert mine == text.split()
    keys = strings.word_keys(letters, bounds)
    assert len(set(keys.tolist())) == len({whole[a:b] for a, b in bounds})
    assert strings.digit_words(*(packed(["a1 b"])[0], np.array([[0, 2], [3, 4]]))).tolist() == [True, False]


def test_published_codes_of_soundex() -> None:
    words = ["robert", "rupert", "rubin", "ashcraft", "ashcroft", "tymczak", "pfister", "honeyman", "a1"]
    letters, start = packed(words)
    bounds = np.stack([start[:-1], start[1:]], axis=1)
    keys = strings.phonetic_keys(letters, bounds)
    expected = ["r163", "r163", "r150", "a261", "a261", "t522", "p236", "h555"]
    assert [f"{chr(key // 1000)}{key % 1000:03}" for key in keys[:8].tolist()] == expected
    assert keys[8] > 10**6


def test_grams_have_borders() -> None:
    letters, start = packed(["", "ab", "abc"])
    counts, keys = strings.gram_keys(letters, start, 3)
    assert counts.tolist() == [0, 0, 4, 9]
    rows = [set(keys[counts[place] : counts[place + 1]].tolist()) for place in range(3)]
    assert len(rows[1] & rows[2]) == 2  # the two that begin with the border: ..a, .ab
    assert len(rows[2]) == 5


def sparse(seed: int, rows: int = 12, columns: int = 9) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    dense = random.random((rows, columns)) * (random.random((rows, columns)) < 0.4)
    return dense, *_compressed(dense)


def _compressed(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    row, index = np.nonzero(dense)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))])
    return start, index.astype(np.int32), dense[row, index]


def test_sparse_products_are_dense_ones() -> None:
    dense, start, index, value = sparse(0)
    one, other = all_pairs(len(dense))
    out = np.zeros(len(one))
    strings.sparse_cosines(start, index, value, one, other, out)
    np.testing.assert_allclose(out, np.minimum((dense @ dense.T).reshape(-1), 1.0), atol=1e-12)
    weight = np.arange(1.0, 10.0)
    contained, shared = np.zeros(len(one)), np.zeros(len(one))
    strings.sparse_overlaps(start, index, weight, one, other, contained, shared)
    for pair, (i, j) in enumerate(zip(one, other, strict=True)):
        mine, theirs = (weight[np.flatnonzero(dense[row])] for row in (i, j))
        both = weight[np.flatnonzero(dense[i] * dense[j])].sum()
        least, most = min(mine.sum(), theirs.sum()), mine.sum() + theirs.sum() - both
        assert contained[pair] == pytest.approx(both / least if least else 0.0)
        assert shared[pair] == pytest.approx(both / most if most else 0.0)


@pytest.mark.parametrize("sides", [False, True])
def test_nearest_rows_are_those_of_sorting(sides: bool) -> None:
    dense, start, index, value = sparse(1)
    by_column = _compressed(dense.T)
    side = np.arange(len(dense)) % 2 if sides else np.zeros(0, dtype=np.int64)
    found, scores = np.zeros((len(dense), 3), dtype=np.int64), np.zeros((len(dense), 3))
    strings.nearest_rows(start, index, value, *by_column, 100, side, found, scores)
    products = dense @ dense.T
    for row in range(len(dense)):
        rest = [n for n in range(len(dense)) if n != row and not (sides and side[n] == side[row])]
        rest = [n for n in rest if products[row, n] > 0]
        expected = sorted(rest, key=lambda n: (-products[row, n], n))[:3]
        assert [n for n in found[row].tolist() if n >= 0] == expected
    few = np.zeros((len(dense), 3), dtype=np.int64)
    strings.nearest_rows(start, index, value, *by_column, 0, side, few, scores)
    assert (few == -1).all()
