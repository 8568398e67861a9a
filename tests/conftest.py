"""What all tests share: the folder of oracles on the path, one hypothesis profile, few kernels, the data collection."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from loopwise.inference.messages import storage
from loopwise.inference.messages.kernel_run import KernelRun
from loopwise.inference.messages.storage import Arrangement
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
# Files whose tests want kernels for pairs of one size, too (few_kernels).
SPECIAL = (
    "tests/inference/messages/kernels/",
    *(
        f"tests/inference/messages/test_{name}.py"
        for name in ("backward", "compiled", "compiled_gradient", "kernel_run", "prepared", "storage")
    ),
    "tests/gradient/test_unroll.py",
)
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


def pytest_configure() -> None:
    gc.disable()  # until all is imported: what imports make stays


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


@pytest.fixture
def literal_sizes() -> range:
    """Asked for by a test that wants the kernels that ship, of every literal size, without :func:`few_kernels`."""
    return storage.LITERAL_SIZES


@pytest.fixture
def literal_pairs() -> None:
    """Asked for by a test that wants the kernels for pairs of size 2 and nothing else."""


@pytest.fixture(autouse=True)
def few_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size that is literal in a kernel is compiled by itself, for seconds. Tests of the kernels ask for all sizes;
    the others make do with literal 2 and with sizes that are only known when a kernel runs. What ships is tried as a
    whole, engine against engine, in ``inference/test_shipped_sizes.py``, and by the examples in README and docs.

    Most run in the kernels for all graphs alike, without what is left out of kernels where all factors are pairs of one
    size, all variables of one size, or no table is shared by examples: that is for the files in ``SPECIAL``."""
    if "literal_sizes" in request.fixturenames:
        return
    monkeypatch.setattr(storage, "LITERAL_SIZES", range(2, 3))
    if "literal_pairs" in request.fixturenames or request.node.nodeid.startswith(SPECIAL):
        return
    in_lanes = Arrangement.EXAMPLES
    for name, value in (
        ("literal", property(lambda run: () if run.in_log_domain else (0, 0))),
        ("general", (0,)),
        ("uniform", None),
        ("sharing", property(lambda run: (0,) if run.storage.arrangement is in_lanes else None)),
    ):
        monkeypatch.setattr(KernelRun, name, value)


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
