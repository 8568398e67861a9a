"""What tests of commands share: a table and a system fitted on it, the file of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.formats import write_uai
from oracles.fit_tables import FAST, succeed, weather
from oracles.infer_files import tree_model


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text(weather())
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.csv").write_text(weather())
    path = folder / "s.loopwise"
    succeed("fit", folder / "train.csv", "--outputs", "rain,grass", "--hidden", "mood", "--out", path, *FAST)
    return path


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    write_uai(tmp_path / "model.uai", tree_model())
    return tmp_path / "model.uai"
