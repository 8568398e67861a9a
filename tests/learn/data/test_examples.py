"""Examples, their batches, and samples of known models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise.formats.table import read_table
from loopwise.learn import Examples, thirds
from loopwise.potentials.features import Features

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role


def random_examples(seed: int, count: int = 40, variables: int = 6, patterns: int = 3) -> Examples:
    """Roles differ between examples, in a few patterns; some values are missing."""
    rng = np.random.default_rng(seed)
    graph = lw.random_mrf(variables, 7, seed=seed)
    kinds = rng.integers(0, 3, (patterns, variables))
    kinds[:, 0] = OUTPUT
    values = rng.integers(0, 2, (count, variables))
    values[rng.random(count) < 0.1, 0] = -1
    return Examples.of(graph, values, kinds[rng.integers(0, patterns, count)], number=torch.arange(count))


def test_roles_missing_values_and_evidence() -> None:
    graph = lw.chain(4)
    examples = Examples.of(graph, [[0, 1, 1, 0], [-1, 1, -1, -1]], [INPUT, INPUT, OUTPUT, HIDDEN])
    assert len(examples) == 2
    assert examples.known_roles.tolist() == [[0, 0, 1, 2], [3, 0, 3, 2]]
    assert examples.evidence.clamp().tolist() == [[0, 1, -1, -1], [-1, 1, -1, -1]]
    assert examples.clamped.tolist() == [[0, 1, 1, -1], [-1, 1, -1, -1]]
    assert examples.outputs.tolist() == [[False, False, True, False]] * 2  # also where its value is not known
    assert examples.targets.scored.tolist() == [[False, False, True, False], [False] * 4]
    assert not examples[1].scored and examples.scored


@given(st.integers(0, 1000), st.data())
def test_parts_are_the_rows_of_the_whole(seed: int, data: st.DataObject) -> None:
    whole = random_examples(seed)
    index = data.draw(
        st.one_of(
            st.integers(-40, 39),
            st.slices(40),
            st.lists(st.integers(-40, 39), min_size=1, max_size=5),
            st.lists(st.booleans(), min_size=40, max_size=40).map(np.array),
        )
    )
    chosen = np.atleast_1d(np.arange(40)[index]).copy()
    for part in (whole[index], whole[torch.as_tensor(index)] if isinstance(index, np.ndarray) else whole[index]):
        assert np.array_equal(part.values, whole.values[chosen])
        assert np.array_equal(part.known_roles, whole.known_roles[chosen])
        assert torch.equal(part.targets.allowed, whole.targets.allowed[torch.from_numpy(chosen)])
        assert part.inputs["number"].tolist() == chosen.tolist()
        assert np.array_equal(part.clamped, whole.clamped[chosen])


@given(st.integers(0, 1000), st.integers(1, 50), st.booleans(), st.booleans())
def test_batches_hold_every_example_once(seed: int, size: int, shuffled: bool, by_pattern: bool) -> None:
    whole = random_examples(seed)
    roles = (INPUT, OUTPUT)

    def numbers() -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed) if shuffled else None
        parts = list(whole.batches(size, generator, by_pattern=by_pattern, clamped=roles))
        for part in parts:
            assert 1 <= len(part) <= size
            if by_pattern:
                observed = np.isin(part.known_roles, roles)
                assert (observed == observed[0]).all()
        return [part.inputs["number"].tolist() for part in parts]

    observed = np.isin(whole.known_roles, roles)
    assert whole.count_patterns(roles) == len({row.tobytes() for row in observed})
    found = numbers()
    flat = [number for part in found for number in part]
    assert sorted(flat) == list(range(40))
    assert found == numbers()
    if not by_pattern:
        assert shuffled or flat == sorted(flat)
        assert len(found) == -(-40 // size)


def test_inputs_of_every_kind_are_cut_with_the_examples() -> None:
    graph = lw.chain(2)
    features = Features.of_table(np.arange(6)[:, None], batch=(3,))  # 3 examples of 2 factors
    examples = Examples.of(
        graph,
        np.zeros((3, 2), int),
        [OUTPUT, OUTPUT],
        features={"unary": features},
        array=np.arange(3),
        words=["a", "b", "c"],
    )
    for part in (examples[[2, 0]], examples[::-2]):
        assert part.inputs["features"]["unary"].index.tolist() == [4, 5, 0, 1]
        assert part.inputs["array"].tolist() == [2, 0]
        assert part.inputs["words"] == ["c", "a"]


def test_set_valued_targets() -> None:
    graph = lw.chain(2, states=3)
    sets = [{0: (0, 2)}, {1: 1}]
    examples = Examples.of(graph, np.full((2, 2), -1), [OUTPUT, OUTPUT], targets=sets)
    assert examples.scored
    assert examples[1].targets.allowed.tolist() == [[False, False, False, False, True, False]]
    with pytest.raises(ValueError, match="do not fit 2 examples"):
        Examples.of(graph, np.full((2, 2), -1), [OUTPUT, OUTPUT], targets=sets[:1])


@pytest.mark.parametrize(
    ("values", "roles", "message"),
    [
        ([[0, 1], [0, 2]], [0, 1], "example 1 gives variable 1 the value 2; it has values 0 to 1"),
        ([[0, -2]], [0, 1], "example 0 gives variable 1 the value -2"),
        ([[0.0, 1.0]], [0, 1], "must be integers, not float64"),
        ([[0, 1, 1]], [0, 1, 1], r"shape \(1, 3\) must be \[examples, variables\], of 2"),
        ([[0, 1]], [0, 5], "the role of variable 1 is 5"),
        ([[0, 1], [1, 1]], [[0, 1], [7, 1]], "the role of variable 0 in example 1 is 7"),
        ([[0, 1]], [0, 1, 1], r"roles of shape \(3,\)"),
    ],
)
def test_bad_examples(values: list[list[int]], roles: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Examples.of(lw.chain(2), values, roles)


def test_bad_inputs_and_indices() -> None:
    graph = lw.chain(2)
    with pytest.raises(ValueError, match="input x has 3 rows for 1 examples"):
        Examples.of(graph, [[0, 1]], [0, 1], x=torch.zeros(3))
    with pytest.raises(ValueError, match=r"input x\['a'\] has 2 rows"):
        Examples.of(graph, [[0, 1]], [0, 1], x={"a": torch.zeros(2)})
    with pytest.raises(ValueError, match="no rows"):
        Examples.of(graph, [[0, 1]], [0, 1], x=3)
    one = Examples.of(graph, [[0, 1]], [0, 1])
    with pytest.raises(IndexError, match="no example 1; there are 1"):
        one[1]
    with pytest.raises(ValueError, match="mask"):
        one[np.array([True, False])]
    with pytest.raises(ValueError, match="at least 1"):
        next(one.batches(0))
    with pytest.raises(ValueError, match="nothing is scored"):
        _ = Examples.of(graph, [[0, -1]], [0, 1]).targets


def test_examples_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,h,y\n0,,yes\n1,,no\n1,,\n")
    table = read_table(path, may_be_empty=["h"])
    graph = lw.chain(3)
    examples = Examples.from_table(graph, table, outputs=["y"], hidden=["h"])
    assert examples.known_roles.tolist() == [[0, 2, 1], [0, 2, 1], [0, 2, 3]]
    with pytest.raises(ValueError, match="'y' is listed both as an output and as hidden"):
        Examples.from_table(graph, table, outputs=["y"], hidden=["h", "y"])
    with pytest.raises(ValueError, match="no variable is called 'z'"):
        Examples.from_table(graph, table, outputs=["z"])
    with pytest.raises(ValueError, match="no output is named"):
        Examples.from_table(graph, table, outputs=[])
    with pytest.raises(ValueError, match="3 variables, the graph has 4"):
        Examples.from_table(lw.chain(4), table, outputs=["y"])
    with pytest.raises(ValueError, match="'a' has 2 labels in the table and 1 values"):
        Examples.from_table(lw.FactorGraph([1, 2, 2], {}), table, outputs=["y"])


@pytest.mark.parametrize("variables", [1, 2, 3, 50, 200])
def test_thirds(variables: int) -> None:
    graph = lw.FactorGraph(np.full(variables, 2), {})
    roles = thirds(graph, seed=3)
    inputs, outputs, hidden = ((roles == role).sum() for role in (INPUT, OUTPUT, HIDDEN))
    assert inputs == hidden == variables // 3
    assert outputs == variables - 2 * (variables // 3) >= 1
    assert np.array_equal(roles, thirds(graph, seed=3))
    if variables == 200:
        assert not np.array_equal(roles, thirds(graph, seed=4))
