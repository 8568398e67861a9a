"""Which message kernels tests run in: few, so that few have to be compiled.

A plugin of pytest, for tests and for examples in docstrings and docs (``conftest.py`` registers it).
"""

from __future__ import annotations

from typing import Any

import pytest

from loopwise.compiled.arithmetic import ANY_POWER, PLAIN
from loopwise.inference.messages import storage
from loopwise.inference.messages.kernel_run import KernelRun
from loopwise.inference.messages.storage import Arrangement

# Files whose tests want kernels for pairs of one size, too.
SPECIAL = (
    "tests/inference/messages/kernels/",
    *(
        f"tests/inference/messages/test_{name}.py"
        for name in ("backward", "compiled", "compiled_gradient", "kernel_run", "prepared", "storage")
    ),
    "tests/gradient/test_unroll.py",
)
# What a newcomer runs first, in the kernels that ship.
SHIPPED = "README.md"


IN_LANES = Arrangement.EXAMPLES
FEW_SIZES: list[tuple[Any, str, Any]] = [(storage, "LITERAL_SIZES", range(2, 3))]
FOR_ALL_GRAPHS: list[tuple[Any, str, Any]] = [
    (KernelRun, "literal", property(lambda run: () if run.in_log_domain else (0, 0))),
    (KernelRun, "general", (0,)),
    (KernelRun, "uniform", None),
    (KernelRun, "sharing", property(lambda run: (0,) if run.storage.arrangement is IN_LANES else None)),
    (KernelRun, "power", property(lambda run: PLAIN if (run.plan.exponents == 1).all() else ANY_POWER)),
]
SHIPPING = {(owner, name): vars(owner)[name] for owner, name, _ in FEW_SIZES + FOR_ALL_GRAPHS}


def in_this_process() -> None:
    """Few kernels from now on; to be called by processes that tests start, too, where both compare their numbers."""
    for owner, name, value in FEW_SIZES + FOR_ALL_GRAPHS:
        setattr(owner, name, value)


def pytest_collection_finish() -> None:
    """Before any test, so that what a module's tests share is made with few kernels, too."""
    in_this_process()


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
    whole, engine against engine, in ``inference/test_shipped_sizes.py``, and by the examples of the README.

    Most run in the kernels for all graphs alike, without what is left out of kernels where all factors are pairs of one
    size, all variables of one size, no table is shared by examples, or messages enter variables by their square roots:
    that is for the files in ``SPECIAL``."""
    where, asked = request.node.nodeid, request.fixturenames
    shipped: list[tuple[Any, str, Any]] = []
    if "literal_sizes" in asked or where.startswith(SHIPPED):
        shipped = FEW_SIZES + FOR_ALL_GRAPHS
    elif "literal_pairs" in asked or where.startswith(SPECIAL):
        shipped = FOR_ALL_GRAPHS
    for owner, name, _ in shipped:
        monkeypatch.setattr(owner, name, SHIPPING[owner, name])
