"""Warnings of named classes that can be filtered, and a log that is quiet until someone asks."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import loopwise as lw
from loopwise import notices

SOURCE = Path(lw.__file__).parent
Nodes = list[tuple[str, ast.Call | ast.Raise]]
CLASSES = [value for value in vars(notices).values() if isinstance(value, type) and issubclass(value, Warning)]


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    """Every call in the library, and everything it raises, with where it is."""
    return [
        (f"{path.relative_to(SOURCE)}:{node.lineno}", node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Call, ast.Raise))
    ]


def is_named(node: ast.expr, name: str) -> bool:
    """Whether an expression is this name, of one or two parts: ``ast.unparse`` of each would take seconds."""
    if isinstance(node, ast.Attribute):
        before, _, last = name.rpartition(".")
        return node.attr == last and isinstance(node.value, ast.Name) and node.value.id == before
    return isinstance(node, ast.Name) and node.id == name


def calls(nodes: Nodes, function: str) -> list[tuple[str, ast.Call]]:
    """Every call of ``function``."""
    return [(place, node) for place, node in nodes if isinstance(node, ast.Call) and is_named(node.func, function)]


def test_every_warning_is_of_a_named_class(nodes: Nodes) -> None:
    found = [*calls(nodes, "warn"), *calls(nodes, "warnings.warn")]
    found = [(place, call) for place, call in found if not place.startswith("notices.py:")]  # which hands a class on
    assert len(found) > 20
    for place, call in found:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        category = call.args[1] if len(call.args) > 1 else given.get("category", call.args[0])
        name = ast.unparse(category.func if isinstance(category, ast.Call) else category)
        assert name.endswith("Warning"), f"{place}: a warning without a class"
        general = ("Warning", "UserWarning", "RuntimeWarning", "LoopwiseWarning")
        assert name not in general, f"{place}: {name} does not say what it is about"


def test_all_are_under_one_class() -> None:
    assert {kind.__name__ for kind in CLASSES} >= {"ConvergenceWarning", "GradientWarning", "DataWarning"}
    assert all(issubclass(kind, notices.LoopwiseWarning) for kind in CLASSES)


def test_errors_say_something(nodes: Nodes) -> None:
    """Whatever is raised for a user has a message; that it names offender and remedy is for readers to judge."""
    for place, node in nodes:
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            if name in ("ValueError", "TypeError", "RuntimeError", "ImpossibleError", "GradientError"):
                assert not isinstance(node.exc, ast.Call) or node.exc.args, f"{place}: {name} without a message"


def cut_short() -> lw.Beliefs:
    graph = lw.graph.complete(4)
    potentials = lw.TablePotentials.random(graph, seed=0)
    return lw.BP(iterations=1, engine=lw.inference.Reference())(graph, potentials)


def test_a_warning_points_at_the_caller_and_can_be_filtered() -> None:
    with pytest.warns(lw.notices.ConvergenceWarning, match="did not converge") as caught:
        cut_short()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", lw.notices.ConvergenceWarning)
        cut_short()


# --- The log ---------------------------------------------------------------------------------------------------------


def test_the_library_logs_under_its_own_names_and_shows_nothing_by_itself(nodes: Nodes) -> None:
    code = (
        "import logging, torch, loopwise as lw; g = lw.chain(3); p = lw.TablePotentials.random(g, seed=0); "
        "torch.no_grad().__enter__(); lw.BP(engine=lw.inference.Reference())(g, p); "
        "print([type(h).__name__ for h in logging.getLogger('loopwise').handlers])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['NullHandler']" and done.stderr == ""
    for place, call in calls(nodes, "logging.getLogger"):
        name = ast.unparse(call.args[0])
        assert name in ("__name__", "'loopwise'"), place


def test_choices_and_training_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    graph = lw.chain(3)
    data = lw.Examples.of(graph, np.zeros((4, 3), dtype=np.int64), np.full(3, lw.Role.OUTPUT))
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=1, tolerance=0, engine=lw.inference.Reference()))
    goal, file = lw.loss.MSE(), tmp_path / "run.loopwise"
    one = lw.FactorGraph([2, 2], {"unary": [[0], [1]]}, {"one": (lw.ExactlyOne(2), [0, 1])})
    with caplog.at_level(logging.DEBUG, "loopwise"):
        lw.Auto(otherwise=system.inference)(one, lw.TablePotentials.random(one, seed=0))
        lw.fit(system, data, goal, epochs=2, restarts=2, start=0.1, checkpoint=file, progress=False)
        lw.fit(system, data, goal, epochs=2, restarts=2, start=0.1, checkpoint=file, progress=False)
    said = [(record.name, record.getMessage()) for record in caplog.records]
    assert any(
        name == "loopwise.inference.auto" and "structured factors need message passing" in line for name, line in said
    )
    training = [line for name, line in said if name.startswith("loopwise.learn.")]
    assert sum(line.startswith("run ") and " of 2" in line for line in training) == 2
    assert sum(line.startswith("epoch ") for line in training) == 4
    assert any(f"checkpoint written to {file}" in line for line in training)
    assert training[-1].startswith(f"resumed from {file} after epoch 2")
