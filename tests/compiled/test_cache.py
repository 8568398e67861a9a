"""The kernel cache: one entry for each state of the sources a kernel is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopwise.compiled import cache
from loopwise.inference.gibbs.kernels import gibbs
from loopwise.inference.messages.kernels import schedules

CALLEE = """
from loopwise.compiled.decorators import callee

@callee
def step(value):
    return value + {increment}
"""

MIDDLE = """
from made_package.callees import step
from loopwise.compiled.decorators import callee

@callee
def two_steps(value):
    return step(step(value))
"""

KERNEL = """
from loopwise.compiled.decorators import kernel
from made_package.middle import two_steps

@kernel
def walk(value):
    return two_steps(value)
"""

# Prints the kernel's answer, and whether it came from the cache.
RUN = """
from made_package.kernels import walk
answer = walk(1)
print(answer, sum(walk.stats.cache_hits.values()), sum(walk.stats.cache_misses.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "made_package"
    folder.mkdir()
    for name, text in {
        "__init__": "",
        "callees": CALLEE.format(increment=10),
        "middle": MIDDLE,
        "kernels": KERNEL,
    }.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run(package: Path, code: str = RUN) -> list[int]:
    """Answer, cache hits and cache misses of a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path]),
        "NUMBA_CACHE_DIR": str(package.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return [int(word) for word in done.stdout.split()]


def test_an_upgrade_of_a_callee_compiles_its_kernels_again(package: Path) -> None:
    assert run(package) == [21, 0, 1]
    assert run(package) == [21, 1, 0]
    callees = package / "callees.py"
    before = callees.stat()
    callees.write_text(CALLEE.format(increment=70))  # as long as before, and as old: only the text tells
    os.utime(callees, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(package) == [141, 0, 1]
    assert run(package) == [141, 1, 0]


NAMED = """
from typing import Any, NamedTuple

class {name}(NamedTuple):
    value: Any
"""
CALL = """
from made_package.kernels import walk
from made_package.types import {name}
answer = walk({name}(1)).value
print(answer, sum(walk.stats.cache_hits.values()), sum(walk.stats.cache_misses.values()))
"""


def test_an_upgrade_that_renames_a_type_compiles_again(package: Path) -> None:
    (package / "kernels.py").write_text(KERNEL.replace("two_steps(value)", "value"))
    for name in ("Before", "Afterwards"):
        (package / "types.py").write_text(NAMED.format(name=name))
        assert run(package, CALL.format(name=name)) == [1, 0, 1]
        assert run(package, CALL.format(name=name)) == [1, 1, 0]


def test_kernels_of_others_follow_what_they_call_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of tests do: they would go on testing what is there no more."""
    sources = {
        "mine.kernels": "from loopwise.compiled.arithmetic import U\n",
        "loopwise.compiled.arithmetic": "from loopwise.compiled import arrays\n",
        "loopwise.compiled.arrays": "ONE = 1\n",
    }
    monkeypatch.setattr(cache, "_source", sources.get)
    before = cache.digest_of_sources.__wrapped__("mine.kernels")
    assert cache.digest_of_sources.__wrapped__("mine.kernels") == before
    sources["loopwise.compiled.arrays"] = "ONE = 2\n"
    assert cache.digest_of_sources.__wrapped__("mine.kernels") != before


def test_digests_follow_imports_of_the_own_package_only() -> None:
    source = "import numpy\nfrom loopwise.inference.messages.kernels import pairs\n"
    source += "from loopwise.inference.messages.kernels.views import (\n    at,\n    put,\n)\n"
    found = list(cache.imported(source, "loopwise"))
    assert found == [
        "loopwise.inference.messages.kernels",
        "loopwise.inference.messages.kernels.pairs",
        "loopwise.inference.messages.kernels.views",
        "loopwise.inference.messages.kernels.views.at",
        "loopwise.inference.messages.kernels.views.put",
    ]


def test_every_kernel_module_has_a_digest_of_its_own_sources() -> None:

    one, other = (cache.digest_of_sources(module.__name__) for module in (schedules, gibbs))
    assert one != other
    assert len(one) == 32


def test_those_who_wait_are_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cache, "_told", [])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    cache._say_compiling("loopwise.inference.messages.kernels.pairs")
    cache._say_compiling("loopwise.apps.parser.kernels.arcs")
    assert capsys.readouterr().err == "loopwise: compiling kernels, once on this machine: about 10 s\n"
    monkeypatch.setattr(cache, "_told", [])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # a notebook is told, too
    cache._say_compiling("loopwise.apps.parser.kernels.arcs")
    assert capsys.readouterr().err.endswith("about 25 s\n")
    monkeypatch.setattr(cache, "_told", [])
    monkeypatch.delitem(sys.modules, "ipykernel")
    cache._say_compiling("loopwise.apps.parser.kernels.arcs")
    assert capsys.readouterr().err == ""


def test_no_folder_for_the_cache_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: object, function: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    class Dispatcher:
        pass

    monkeypatch.setattr(cache.FunctionCache, "__init__", nowhere)
    dispatcher = Dispatcher()
    cache.SourceCache.attach(dispatcher, test_no_folder_for_the_cache_means_no_cache)
    assert not hasattr(dispatcher, "_cache")
