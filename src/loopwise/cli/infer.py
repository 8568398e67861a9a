"""``loopwise infer``: a model file in, a solution in the format of the UAI inference competitions out.

The solution goes to standard output or a file; the status and warnings go to standard error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import grouped
from loopwise.cli.messages import is_interactive, one_line_each, say
from loopwise.cli.methods import SECONDS, Choice, MessageOptions, MethodName, TaskName
from loopwise.cli.problem import read_problem
from loopwise.cli.targets import target_of

if TYPE_CHECKING:
    from loopwise.inference.beliefs import Beliefs, Status
    from loopwise.inference.explain import Explanation
    from loopwise.inference.maximum.map_search import Progress


CHEAP = 100_000  # edges of a graph up to which bounds of log Z take seconds


@dataclass(frozen=True)
class InferOptions(MessageOptions):
    """The same, for methods that draw samples too."""

    iterations: Annotated[
        int | None,
        typer.Option(help="Sweeps at most; for gibbs, samples a chain.", show_default="100; gibbs 1000"),
    ] = None


@dataclass(frozen=True)
class SearchLimits:
    """What exact answers and searches may cost."""

    memory_limit: Annotated[float | None, typer.Option(help="GiB that exact inference may use.", show_default="2")] = (
        None
    )
    seconds: Annotated[
        float | None,
        typer.Option(
            help="For MAP: how long to search; if given, elimination is tried only if it should take no longer.",
            show_default="20",
        ),
    ] = None


@dataclass(frozen=True)
class ObservedValues:
    """What is known of the variables."""

    evidence: Annotated[Path | None, typer.Option(help="A .evid file of observed values, plain or .gz.")] = None
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="An observed value, by the names of a .bif file or by number; may be repeated."
        ),
    ] = None


@grouped
def infer(
    model: Annotated[
        Path, typer.Argument(help="A .uai, .fg or .bif file, plain or .gz; - reads a .uai from standard input.")
    ],
    *,
    known: ObservedValues,
    method: Annotated[MethodName, typer.Option(help="auto: exact if it fits in memory, else bp.")] = MethodName.AUTO,
    task: Annotated[
        TaskName,
        typer.Option(help="Marginals, log10 of the partition function, or the most probable configuration."),
    ] = TaskName.MAR,
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON with the status instead of the solution format.")
    ] = False,
    seed: Annotated[int, typer.Option(help="For the methods that draw random numbers.")] = 0,
    messages: InferOptions,
    limits: SearchLimits,
    explained: Annotated[
        bool,
        typer.Option("--explain", help="Say why a run did not converge, what was tried, and what would help."),
    ] = False,
) -> None:
    """Marginals, partition function or most probable configuration of a model file."""
    with one_line_each():
        choice = messages.choice(method, task, seed, **asdict(limits))
        target = target_of(out, inputs=(model, known.evidence))
        graph, potentials, observed, problem = read_problem(model, known.evidence, known.given or ())
        with _shown(choice) as choice:
            beliefs = choice.inference()(graph, potentials, observed)
            if beliefs.status.maximum is not None:
                _ = beliefs.status.maximum.gap  # computed when asked for; the status then tells of it
                _ = beliefs.log_partition  # warns of a broken zero
        say(str(beliefs.status))
        explanation = _explained(beliefs) if explained else None
        bracket = _bracket(choice.task, beliefs)
        if bracket is not None:
            low, high = bracket
            upper = f"at most {high:.8g} (TRW)" if high < math.inf else "no upper bound found (TRW did not converge)"
            say(f"log10 Z: {_log10(beliefs):.8g}, at least {low:.8g} (mean field), {upper}")
        if as_json:
            told = {} if explanation is None else {"explanation": explanation.to_json()}
            _write_json(target, {"model": problem, **_report(choice, beliefs, bracket), **told})
        else:
            _write_solution(target, choice.task, beliefs)


@contextmanager
def _shown(choice: Choice) -> Iterator[Choice]:
    """The choice with its search shown to whoever watches: the score and the bound as they come closer."""
    if choice.task is not TaskName.MAP or not is_interactive():
        yield choice
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    total = SECONDS if choice.seconds is None else choice.seconds
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("eliminating or passing messages", total=total)

        def watch(found: Progress) -> None:
            bar.update(task, completed=found.seconds, description=f"score {found.score:.8g}, bound {found.bound:.8g}")

        yield replace(choice, watch=watch)


def _explained(beliefs: Beliefs) -> Explanation:
    from loopwise.inference.explain import explain

    explanation = explain(beliefs)
    say(str(explanation))
    return explanation


def _bracket(task: TaskName, beliefs: Beliefs) -> tuple[float, float] | None:
    """Bounds of log10 Z around an approximate answer, where they are cheap."""
    if task is not TaskName.PR or beliefs.status.exact or not beliefs.has_bounds:
        return None
    if beliefs.graph.layout.edges > CHEAP:
        say(f"no bounds of log10 Z: with over {CHEAP} edges they would take longer than the answer")
        return None
    low, high = beliefs.log_partition_bounds
    return float(low) / math.log(10), float(high) / math.log(10)


def _marginals(beliefs: Beliefs) -> list[list[float]]:
    start, states = beliefs.graph.layout.state_start.tolist(), beliefs.states.tolist()
    return [states[first:last] for first, last in pairwise(start)]


def _log10(beliefs: Beliefs) -> float:
    return float(beliefs.log_partition.detach()) / math.log(10)


def _write_solution(target: Path, task: TaskName, beliefs: Beliefs) -> None:
    from loopwise.formats import write_map, write_mar, write_pr

    if task is TaskName.MAR:
        write_mar(target, _marginals(beliefs))
    elif task is TaskName.PR:
        write_pr(target, _log10(beliefs))
    else:
        write_map(target, beliefs.assignment.numpy())


def _report(choice: Choice, beliefs: Beliefs, bracket: tuple[float, float] | None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "task": choice.task.value,
        "method": choice.method.value,
        "seed": choice.seed,
        "status": _status(beliefs.status),
    }
    if choice.task is TaskName.MAR:
        report["marginals"] = _marginals(beliefs)
        if beliefs.graph.vocabulary is not None:
            report["named"] = {name: beliefs[name].to_dict() for name in beliefs.graph.vocabulary.names}
    elif choice.task is TaskName.PR:
        report["log10_partition"] = _finite(_log10(beliefs))
        if bracket is not None:
            report["log10_partition_bounds"] = [_finite(bound) for bound in bracket]
    else:
        report["assignment"] = beliefs.assignment.tolist()
        known = beliefs.graph.vocabulary
        if known is not None:
            values = zip(known.names, known.labels, report["assignment"], strict=True)
            report["named"] = {name: labels[value] for name, labels, value in values}
        report["log10_score"] = _finite(_log10(beliefs))
        maximum = beliefs.status.maximum
        assert maximum is not None, "every method that solves this task has one"
        report["log10_bound"] = _finite(float(maximum.bound) / math.log(10))
        report["relative_gap"] = _finite(float(maximum.gap))
        report["optimal"] = bool(maximum.optimal)
    return report


def _status(status: Status) -> dict[str, Any]:
    return {
        "method": status.method,
        "exact": status.exact,
        "converged": status.converged,
        "sweeps": int(status.sweeps),
        "residual": _finite(float(status.residual)),
        "messages": status.messages,
        "engine": status.engine,
        "domain": status.domain,
        "notes": list(status.notes),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return value if math.isfinite(value) else None


def _write_json(target: Path, report: dict[str, Any]) -> None:
    from loopwise.formats import atomic_write

    with atomic_write(target) as stream:
        stream.write(json.dumps(report, allow_nan=False) + "\n")
