"""Models and evidence that commands read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from loopwise.formats import TableModel, read_mar, write_evidence, write_fg, write_uai
from oracles.commands import assert_one_sentence
from oracles.infer_files import invoke, succeed, tree_model


def test_compressed_files_other_format_and_standard_input(model_file: Path, tmp_path: Path) -> None:
    plain = succeed(model_file).stdout
    (tmp_path / "packed.uai.gz").write_bytes(gzip.compress(model_file.read_bytes()))
    write_fg(tmp_path / "other.fg.gz", tree_model())
    assert succeed(tmp_path / "packed.uai.gz").stdout == plain
    assert succeed("-", text=model_file.read_text()).stdout == plain
    (tmp_path / "first").write_text(plain)
    (tmp_path / "second").write_text(succeed(tmp_path / "other.fg.gz").stdout)
    np.testing.assert_allclose(
        np.concatenate(read_mar(tmp_path / "first")),
        np.concatenate(read_mar(tmp_path / "second")),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3\n", ["model.uai"]),  # cut short
        ("MARKOV\n2\n2 x\n", ["model.uai", "line 3"]),
        ("NETWORK\n1\n2\n0\n", ["NETWORK"]),
        ("MARKOV\n1\n2\n1\n1 0\n2\n0 0\n", ["variable 0"]),  # nothing is possible
        ("MARKOV\n999999999999\n", ["999999999999"]),
    ],
)
def test_bad_models_are_one_sentence(tmp_path: Path, content: str, words: list[str]) -> None:
    (tmp_path / "model.uai").write_text(content)
    assert_one_sentence(invoke(tmp_path / "model.uai"), *words)


def test_impossible_evidence_is_one_sentence(tmp_path: Path) -> None:
    write_uai(tmp_path / "equal.uai", TableModel.of([2, 2], [((0, 1), np.eye(2))]))
    write_evidence(tmp_path / "unequal.evid", {0: 0, 1: 1})
    assert_one_sentence(invoke(tmp_path / "equal.uai", "--evidence", tmp_path / "unequal.evid"), "impossible evidence")
