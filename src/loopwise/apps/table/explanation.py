r"""Which cells of a row moved a belief, measured in two ways.

In: a row, a column, a trained model. Out: :class:`AnswerExplanation`. Stage: use.

By clamping: :math:`\log b(y\mid x) - \log b(y\mid x_{-i})`, the cell taken away. By gradient: the derivative of
:math:`\log b(y\mid x)` by every weight that the cell takes part in, times how far this weight is from its average over
the values that the cell might have had.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.inference.evidence_rows import RowAnswers

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CellInfluence:
    """What one cell did to the belief in an answer, in nats: positive numbers spoke for it."""

    column: str
    value: str
    clamping: float
    gradient: float


@dataclass(frozen=True)
class AnswerExplanation:
    """An answer, how probable it is, without any cell and with all, and the cells that moved it, strongest first."""

    column: str
    answer: str
    probability: float
    before: float
    cells: tuple[CellInfluence, ...]

    def __str__(self) -> str:
        lines = [f"{self.column} is {self.answer}: {self.before:.3f} before, {self.probability:.3f} given this row"]
        lines += [f"{cell.clamping:+8.3f} {cell.gradient:+8.3f}  {cell.column} is {cell.value}" for cell in self.cells]
        return "\n".join(lines)


def by_clamping(model: RowAnswers, row: Integers, place: int, answer: int) -> Floats:
    """The change of the answer's log-belief by each known cell, ``[variables]``; 0 for the others."""
    known = np.flatnonzero(row != FREE)
    without = np.tile(row, (len(known) + 1, 1))
    without[np.arange(len(known)), known] = FREE
    beliefs = np.log(np.maximum(model.beliefs(without)[place][:, answer], 1e-300))
    found = np.zeros(len(row))
    found[known] = beliefs[-1] - beliefs[:-1]
    return found


def by_gradient(model: RowAnswers, row: Integers, place: int, answer: int) -> Floats:
    """The same to first order, from one backward, ``[variables]``."""
    targets = np.full((1, len(row)), FREE)
    targets[0, place] = answer
    _, gradient = model.rows.loss(model.weights, row[None], targets, np.ones(len(row)))
    average = [beliefs[0] for beliefs in model.beliefs(np.full((1, len(row)), FREE))]
    found = np.zeros(len(row))
    first = 0
    for group in model.rows.graph.groups:
        end = first + group.count * group.cells
        shape = (group.count, *group.shape)
        own, weights = gradient[first:end].reshape(shape), model.weights[first:end].reshape(shape)
        for axis in range(group.arity):
            for factor, variable in enumerate(group.scopes[:, axis].tolist()):
                if row[variable] != FREE:
                    mean = np.tensordot(weights[factor], average[variable], axes=(axis, 0))
                    found[variable] -= float((own[factor] * (weights[factor] - np.expand_dims(mean, axis))).sum())
        first = end
    return found
