"""What all tests share: the folder of oracles on the path, one hypothesis profile, the data collection."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # so that every folder can say: from oracle import enumerate_model

# Compiling a kernel takes seconds, once: no deadline. The same examples every time: red runs can be repeated.
settings.register_profile("loopwise", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=500)  # pytest --hypothesis-profile=thorough
settings.load_profile("loopwise")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data collection: where LOOPWISE_DATA says, or beside the repository."""
    folder = Path(os.environ.get("LOOPWISE_DATA", HERE.parents[1] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data collection at {folder}; set LOOPWISE_DATA to its folder")
    return folder
