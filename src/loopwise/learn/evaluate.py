"""How good a system is: any measure, on any number of examples, chunk by chunk.

In: a system, examples, measures or objectives. Out: numbers. Stage: learning. A measure is combined from the statistics
of all examples (:mod:`loopwise.loss.base`), so micro averages are right whatever the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import Integers
from loopwise.learn.data.batching import BatchSize
from loopwise.learn.data.template_examples import Corpus, TemplateExamples
from loopwise.learn.system import Given, System, answering, naming_the_example
from loopwise.loss.base import Measure
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.loss.reduction import Each, Mean, Pooled

Goal = Measure | LikelihoodObjective


def risk(system: System, examples: Given, goal: Goal, *, step: int | None = None) -> Tensor:
    """What training minimises on one batch, a scalar with gradient: ``goal`` of the soft decision, or the objective.

    ``step`` is where schedules of the decoder stand.
    """
    part = system.examples(examples)
    if isinstance(goal, LikelihoodObjective):
        values = objective_values(system, part, goal)
        return (values if part.weights is None else values * torch.from_numpy(part.weights).to(values)).sum() / len(
            part
        )
    said = part.by_example(system(part, step=step))
    if part.weights is None:
        return goal(said, part.targets)
    return combined(goal, goal.statistics(said, part.targets), part.weights)


def combined(goal: Measure, statistics: Tensor, weights: NDArray[np.float64] | None) -> Tensor:
    """The measure of statistics ``[examples, columns]``, each example as often as its weight says."""
    if weights is None:
        return goal.combine(statistics)
    own = torch.from_numpy(weights).to(statistics)
    if isinstance(goal.reduction, Pooled):
        return goal.combine(statistics * own[:, None])
    if isinstance(goal.reduction, Mean):
        counted = own * (statistics[:, 0] > 0)
        return (goal.value(statistics) * counted).where(counted > 0, 0.0).sum() / counted.sum().clamp_min(1e-300)
    raise ValueError(
        f"examples have weights, which a {type(goal.reduction).__name__} over examples has no place for; use Mean() or "
        "Pooled() as the reduction of the loss"
    )


def objective_values(system: System, part: Corpus, goal: LikelihoodObjective) -> Tensor:
    """The objective of each example of ``part``; of a union of examples, their total."""
    with naming_the_example(part, lambda single: objective_values(system, single, goal)):
        return goal.per_example(system.inference, part.graph, system.tables(part), part.evidence)


@overload
def evaluate(
    system: System, examples: Given, measure: Goal, *, batch: BatchSize | None = ..., by_pattern: bool = ...
) -> float: ...


@overload
def evaluate(
    system: System,
    examples: Given,
    measure: Mapping[str, Goal],
    *,
    batch: BatchSize | None = ...,
    by_pattern: bool = ...,
) -> dict[str, float]: ...


@overload
def evaluate(
    system: System, examples: Given, measure: Sequence[Goal], *, batch: BatchSize | None = ..., by_pattern: bool = ...
) -> list[float]: ...


def evaluate(
    system: System,
    examples: Given,
    measure: Goal | Mapping[str, Goal] | Sequence[Goal],
    *,
    batch: BatchSize | None = None,
    by_pattern: bool = True,
) -> float | dict[str, float] | list[float]:
    """``measure`` of the hard decisions of ``system``, or an objective's mean: what is reported at test time.

    A mapping or a list of measures gives as many numbers; inference is run once for all measures of decisions.

    Parameters
    ----------
    system: what decides.
    examples: :class:`Examples`, or with a template a list of its examples.
    measure: a loss, a metric or a likelihood, or several in a mapping or list.
    batch: examples (or a :class:`~loopwise.learn.TotalSize` of them) at a time.
    by_pattern: as for :meth:`Examples.batches`.

    Returns
    -------
    A number, or as many as there are measures, in the same form.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> examples = lw.Examples.of(graph, [[0, 1, 1], [1, 1, 0]], [lw.Role.OUTPUT] * 3)
    >>> system = lw.System(lw.TablePotentials(graph), lw.BP())
    >>> round(lw.evaluate(system, examples, lw.metric.Accuracy()), 3)
    0.333
    """
    if isinstance(measure, Mapping):
        values = evaluate(system, examples, list(measure.values()), batch=batch, by_pattern=by_pattern)
        return dict(zip(measure, values, strict=True))
    goals = list(measure) if isinstance(measure, Sequence) else [measure]
    corpus = system.examples(examples)
    found = _statistics(system, corpus, goals, batch, by_pattern)
    values = [_number(goal, rows, len(corpus)) for goal, rows in zip(goals, found, strict=True)]
    return values if isinstance(measure, Sequence) else values[0]


def score_examples(
    system: System, examples: Given, measure: Goal, *, batch: BatchSize | None = None, by_pattern: bool = True
) -> Tensor:
    """``measure`` of each example, ``[examples]``, for paired tests; 0 where nothing is scored.

    An objective of examples of a template goes one example at a time: of a union only the sum is known.
    """
    corpus = system.examples(examples)
    if isinstance(measure, LikelihoodObjective) and isinstance(corpus, TemplateExamples):
        batch = 1
    (rows,) = _statistics(system, corpus, [measure], batch, by_pattern)
    return rows if isinstance(measure, LikelihoodObjective) else Each()(measure, rows)


def _number(goal: Goal, rows: Tensor, count: int) -> float:
    value = rows.sum() / count if isinstance(goal, LikelihoodObjective) else goal.combine(rows)
    if value.ndim:
        raise ValueError(
            f"{type(goal).__name__} with reduction=Each() is a number for each example: call lw.learn.score_examples "
            "instead"
        )
    return float(value)


def _statistics(
    system: System, examples: Corpus, goals: Sequence[Goal], batch: BatchSize | None, by_pattern: bool
) -> list[Tensor]:
    """Of each measure its statistics ``[examples, columns]``, of each objective its values ``[examples]``; of unions of
    examples their totals."""
    for goal in goals:
        if not isinstance(goal, Measure | LikelihoodObjective):
            raise ValueError(f"{goal!r} is no measure; use one of lw.loss or lw.metric, such as lw.loss.MSE()")
    if not len(examples):
        raise ValueError("there are no examples to evaluate on; give at least one")
    batch = examples.usual_chunk if batch is None else batch
    found: list[list[Tensor]] = [[] for _ in goals]
    measures = {place: goal for place, goal in enumerate(goals) if isinstance(goal, Measure)}
    objectives = {place: goal for place, goal in enumerate(goals) if isinstance(goal, LikelihoodObjective)}
    with answering(system):
        if measures:
            if not examples.scored:
                raise ValueError(
                    "nothing is scored: no output has a known value in any example; give values of the outputs"
                )
            order = examples.batch_indices(batch, by_pattern=by_pattern)
            for rows in order:
                for place, values in _measured(system, examples[rows], measures):
                    found[place].append(values)
            _sort(found, measures, order)
        if objectives:
            order = examples.batch_indices(batch, by_pattern=by_pattern, clamped=(Role.INPUT, Role.OUTPUT))
            for rows in order:
                for place, objective in objectives.items():
                    found[place].append(_objective(system, examples[rows], objective, examples))
            _sort(found, objectives, order)
    return [rows[0] for rows in found]


def _measured(system: System, part: Corpus, measures: Mapping[int, Measure]) -> Iterator[tuple[int, Tensor]]:
    """Statistics of a part; where nothing of it is scored, without inference."""
    decision = part.by_example(system.decide(part)) if part.scored else None
    for place, measure in measures.items():
        if decision is None:
            yield place, torch.zeros(len(part), measure.columns, dtype=torch.float64)
        else:
            yield place, measure.statistics(decision, part.targets).to("cpu", torch.float64)


def _objective(system: System, part: Corpus, objective: LikelihoodObjective, whole: Corpus) -> Tensor:
    """Values of a part. Where nothing is scored there is no likelihood, and its share of the mean is 0; an error only
    if that is so in the ``whole``."""
    if _scored_by(objective, whole) and not _scored_by(objective, part):
        return torch.zeros(len(part), dtype=torch.float64)
    return objective_values(system, part, objective).to("cpu", torch.float64).reshape(-1)


def scored_roles(objective: LikelihoodObjective) -> tuple[Role, ...]:
    """Outputs; a joint likelihood scores inputs as well."""
    return (Role.INPUT, Role.OUTPUT) if getattr(objective, "joint", False) else (Role.OUTPUT,)


def _scored_by(objective: LikelihoodObjective, examples: Corpus) -> bool:
    return bool(examples.having(scored_roles(objective)).any())


def _sort(found: list[list[Tensor]], places: Iterable[int], order: Sequence[Integers]) -> None:
    """Joins the parts of each of ``places``, back in the order of the examples where there is a row for each."""
    back = torch.from_numpy(np.argsort(np.concatenate(order), kind="stable"))
    for place in places:
        joined = torch.cat(found[place])
        found[place] = [joined.index_select(0, back) if len(joined) == len(back) else joined]
