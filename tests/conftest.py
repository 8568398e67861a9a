"""What all tests share: the folder of oracles on the path, one hypothesis profile, few kernels, the data collection."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from oracles import few_kernels
from oracles.gradient_cases import ENGINES, SCHEDULES

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # so that every folder can say: from oracles.enumeration import enumerate_model

# Compiling a kernel takes seconds, once: no deadline. The same examples every time: red runs can be repeated.
settings.register_profile("loopwise", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=500)  # pytest --hypothesis-profile=thorough
settings.load_profile("loopwise")

# Two processes take files from the two ends of the list (oracles/both_ends.py) and meet at what is quick. At one end
# stands what has kernels compiled; at the other what takes long: models that train, then pages and studies, long tests.
KERNELS = ("tests/inference/", "tests/gradient/", "tests/graph/", "tests/compiled/")
LONG = ("tests/budget/", "tests/learn/", "tests/walk/", "tests/apps/", "tests/cli/", "tests/fuzz/", "tests/demo/")
LONGEST = ("docs/", "README", "tests/studies/", "tests/test_docs_site", "tests/test_examples", "tests/test_notebooks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests, and examples in docstrings, in the middle."""

    def rank(item: pytest.Item) -> int:
        return next((at for at, names in ((0, KERNELS), (2, LONG), (3, LONGEST)) if item.nodeid.startswith(names)), 1)

    items.sort(key=rank)


def keep_what_is_there() -> None:
    """Whatever is loaded or compiled by now stays: the collector need not look through it again and again. Beside some
    hundred kernels, each look takes seconds."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is imported: what imports make stays
    config.pluginmanager.register(few_kernels)  # for examples in docstrings and docs, too


def pytest_collection_finish() -> None:
    keep_what_is_there()
    gc.enable()
    gc.set_threshold(10_000, 10, 1_000_000)  # no look at everything before a file ends


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        keep_what_is_there()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    if config.getvalue("dist") != "loadfile":
        return None
    from oracles.both_ends import BothEnds

    return BothEnds(config, log)


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def engine(request: pytest.FixtureRequest) -> object:
    """Each engine in turn."""
    return request.param


@pytest.fixture(params=SCHEDULES.values(), ids=SCHEDULES.keys())
def schedule(request: pytest.FixtureRequest) -> object:
    """Each compiled schedule in turn."""
    return request.param


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data collection: where LOOPWISE_DATA says, or beside the repository."""
    folder = Path(os.environ.get("LOOPWISE_DATA", HERE.parents[1] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data collection at {folder}; set LOOPWISE_DATA to its folder")
    return folder
