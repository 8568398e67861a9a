"""Evidence and solution files of the UAI competitions."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.formats import (
    FormatError,
    read_evidence,
    read_map,
    read_mar,
    read_pr,
    write_evidence,
    write_map,
    write_mar,
    write_pr,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("", {}),
        ("\n \n", {}),
        ("0", {}),
        ("0\n", {}),
        ("1\n0\n", {}),
        ("2 3 0 1 2", {3: 0, 1: 2}),
        ("2\n3 0\n1 2\n", {3: 0, 1: 2}),
        ("1\n2 3 0 1 2\n", {3: 0, 1: 2}),
        ("1 1 1", {1: 1}),
        ("1\n1 1 1", {1: 1}),
        ("2 1 1 1 1", {1: 1}),
    ],
)
def test_evidence_layouts(text: str, evidence: dict[int, int], tmp_path: Path) -> None:
    assert read_evidence(written(tmp_path, text)) == evidence
    assert read_evidence(written(tmp_path, text), [3, 3, 3, 3]) == evidence


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("2\n3 0\n", 1, "claims 2 observed variables"),
        ("3\n1 1 0\n", 1, "3 evidence samples; only one"),
        ("1 2 0 5", 1, "claims 2 observed variables"),
        ("1000000000000 1 1", 1, "claims 1000000000000 observed variables"),
        ("1\n4 0", 2, "variable 4 is observed; the model has 4 variables"),
        ("2\n0 0\n3 3", 3, "variable 3 is observed as 3; it has values 0 to 2"),
        ("1\n-1 0", 2, "is -1; it must be an integer"),
        ("1\n1 0.5", 2, "is 0.5; it must be an integer"),
        ("2\n1 0\n1 1", 3, "variable 1 is observed twice, as 0 and as 1"),
        ("1\n1 x", 2, "'x' is not a number"),
    ],
)
def test_bad_evidence(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        read_evidence(path, [3, 3, 3, 3])
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert message in str(caught.value)


WEIGHTS = st.floats(0.01, 1)


def normalised(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(
    ("marginals", "words"),
    [
        ("2 2 0.5 0.5 2 0.2 0.2", "variable 1 sum to 0.4"),
        ("1 3 0.9 0.9 0.9", "variable 0 sum to 2.7"),
        ("1 2 -0.5 1.5", "value 0 of variable 0 is -0.5"),
        ("1 2 nan 1", "value 0 of variable 0 is nan"),
        ("1 2 1_0 0", "'1_0' is not a number"),
        ("1 2 infinity 0", "'infinity' is not a number"),
        ("1 2 " + "9" * 5000 + " 0", "value 0 of variable 0 is inf"),
        ("1 2 " + "x" * 5000 + " 0", "xxx…' (5000 characters) is not a number"),
    ],
)
def test_marginals_that_are_no_distribution(marginals: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError) as problem:
        read_mar(written(tmp_path, f"MAR\n{marginals}\n"))
    assert words in str(problem.value) and problem.value.line == 2 and len(str(problem.value)) < 300


def test_marginals_may_be_rounded_to_three_decimals(tmp_path: Path) -> None:
    assert len(read_mar(written(tmp_path, "MAR\n2 3 0.333 0.333 0.333 2 0.3335 0.6665\n"))) == 2
    with pytest.raises(ValueError, match=r"variable 1 sum to 0\.8, not to 1; normalise"):
        write_mar(tmp_path / "x.MAR", [[1.0], [0.4, 0.4]])


@settings(max_examples=50, deadline=None)
@given(
    evidence=st.dictionaries(st.integers(0, 10**6), st.integers(0, 50), max_size=8),
    marginals=st.lists(st.lists(WEIGHTS, min_size=1, max_size=5).map(normalised), max_size=6),
    log10_partition=st.floats(allow_nan=False).filter(lambda value: value < math.inf),
    values=st.lists(st.integers(0, 1000), max_size=8),
)
def test_round_trips(
    evidence: dict[int, int], marginals: list[list[float]], log10_partition: float, values: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.gz"
        write_evidence(path, evidence)
        assert read_evidence(path) == evidence
        write_mar(path, marginals)
        assert [marginal.tolist() for marginal in read_mar(path)] == marginals
        assert [len(m) for m in read_mar(path, [len(m) for m in marginals])] == [len(m) for m in marginals]
        write_pr(path, log10_partition)
        assert read_pr(path) == log10_partition
        write_map(path, np.array(values, dtype=np.int64))
        assert read_map(path).tolist() == values


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([[1.0], [0.0, 1.0], [0.25, 0.75], [0.5, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0]]), max_size=6)
)
def test_a_sample_count_in_front_of_marginals_is_never_mistaken(marginals: list[list[float]]) -> None:
    body = " ".join([str(len(marginals)), *(f"{len(m)} {' '.join(map(str, m))}" for m in marginals)])
    with tempfile.TemporaryDirectory() as folder:
        for text in (f"MAR\n{body}\n", f"MAR\n1\n{body}\n"):
            assert [m.tolist() for m in read_mar(written(Path(folder), text))] == marginals


def test_sample_counts_in_front_of_other_solutions(tmp_path: Path) -> None:
    assert read_pr(written(tmp_path, "PR\n1\n-12.5\n")) == -12.5
    assert read_pr(written(tmp_path, "PR\n1\n")) == 1
    assert read_pr(written(tmp_path, "PR -inf")) == -math.inf
    assert read_map(written(tmp_path, "MPE\n1\n3 0 1 2\n")).tolist() == [0, 1, 2]
    assert read_map(written(tmp_path, "MAP\n3 0 1 2\n")).tolist() == [0, 1, 2]
    assert read_map(written(tmp_path, "MAP\n1 0\n")).tolist() == [0]
    assert read_map(written(tmp_path, "MAP\n1\n1 4\n")).tolist() == [4]


def mar_of_pairs(path: Path) -> object:
    return read_mar(path, [2, 2])


def map_of_pairs(path: Path) -> object:
    return read_map(path, [2, 2])


@pytest.mark.parametrize(
    ("reader", "text", "line", "message"),
    [
        (mar_of_pairs, "PR\n1\n", 1, "begins with 'PR'; it should begin with MAR"),
        (mar_of_pairs, "", 1, "begins with ''"),
        (mar_of_pairs, "MAR\n", 1, "ends where the number of variables"),
        (mar_of_pairs, "MAR\n1000000000000 2 .5 .5\n", 2, "claims 1000000000000 variables"),
        (mar_of_pairs, "MAR\n2 2 .5 .5\n2 .5\n", 3, "marginal of variable 1: 2 numbers should follow"),
        (mar_of_pairs, "MAR\n2 2 .5 .5\n2 .5 1.5\n", 3, "value 1 of variable 1 is 1.5"),
        (mar_of_pairs, "MAR\n2 2 .5 .5\n2 nan .5\n", 3, "value 0 of variable 1 is nan"),
        (mar_of_pairs, "MAR\n2 2 -.5 .5\n2 .5 .5\n", 2, "is -0.5"),
        (mar_of_pairs, "MAR\n2 2 .5 .5\n3 .5 .5 0\n", 3, "variable 1 has 3 values here and 2 in the model"),
        (mar_of_pairs, "MAR\n1 2 .5 .5\n", 2, "has 1 variables and the model 2"),
        (mar_of_pairs, "MAR\n2 2 .5 .5 2 .5 .5\n9\n", 3, "1 more numbers follow"),
        (mar_of_pairs, "MAR\n2 0 2 .5 .5 1\n", 2, "must be an integer of at least 1"),
        (read_pr, "PR\n", 1, "ends where log10"),
        (read_pr, "PR\nnan\n", 2, "is nan"),
        (read_pr, "PR\ninf\n", 2, "is inf"),
        (read_pr, "PR\n1\n2\n3\n", 3, "2 more numbers follow"),
        (map_of_pairs, "MAP\n2 0\n", 2, "2 numbers should follow"),
        (map_of_pairs, "MAP\n2 0 1 1\n", 2, "1 more numbers follow"),
        (map_of_pairs, "MAP\n2 0\n2\n", 3, "variable 1 has the value 2"),
        (map_of_pairs, "MAP\n3 0 0 0\n", 2, "has 3 variables and the model 2"),
        (map_of_pairs, "MAP\n2 0 -1\n", 2, "is -1"),
    ],
)  # fmt: skip
def test_bad_solutions(reader: Callable[[Path], object], text: str, line: int, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        reader(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert message in str(caught.value)


def test_nonsense_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="variable 1 the value -1"):
        write_evidence(path, {1: -1})
    with pytest.raises(ValueError, match="marginal of variable 1"):
        write_mar(path, [[0.5, 0.5], [math.nan, 1.0]])
    with pytest.raises(ValueError, match="marginal of variable 0"):
        write_mar(path, [[]])
    with pytest.raises(ValueError, match="log10"):
        write_pr(path, math.nan)
    with pytest.raises(ValueError, match="one integer"):
        write_map(path, [0.5])
    with pytest.raises(ValueError, match="one integer"):
        write_map(path, [-1])
    assert not path.exists()
