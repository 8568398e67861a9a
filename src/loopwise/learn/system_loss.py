"""The training objective of a system on all its examples at once, as a function of one vector.

In: a system, examples, a goal. Out: :func:`whole_risk`; :class:`SystemLoss`, which
:class:`~loopwise.learn.descent.Descent` minimises. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.template_examples import Corpus, TemplateExamples
from loopwise.learn.distributed import Team
from loopwise.learn.evaluate import Goal, combined, objective_values, risk
from loopwise.learn.optim.lbfgs import FlatLoss, Vector
from loopwise.learn.system import Given, System
from loopwise.loss.base import Measure


def whole_risk(system: System, examples: Corpus, goal: Goal, parts: Sequence[Integers], step: int = 0) -> Tensor:
    """The loss of all examples, a part at a time; it pools statistics as the measure says. Memory grows with them."""
    if isinstance(goal, Measure):
        chosen = [examples[rows] for rows in parts]
        decided = [part.by_example(system(part, step=step)) for part in chosen]
        found = [goal.statistics(rows, part.targets) for rows, part in zip(decided, chosen, strict=True)]
        weights = None if examples.weights is None else np.concatenate([examples.weights[rows] for rows in parts])
        return combined(goal, torch.cat(found), weights)
    pieces = [len(part) * risk(system, examples[part], goal) for part in parts]
    return torch.stack(pieces).sum() / len(examples)


def shared_risk(
    team: Team,
    params: Sequence[Tensor],
    system: System,
    examples: Corpus,
    goal: Goal,
    parts: Sequence[Integers],
    step: int = 0,
) -> Tensor:
    """The same of ``parts`` of the examples, to each of which every process of ``team`` adds its share."""
    sizes = examples.sizes if isinstance(examples, TemplateExamples) else None
    by_rank = list(zip(*(team.shares(rows, sizes) for rows in parts), strict=True))  # of each process, of each part
    shares = [share for share in by_rank[team.rank] if len(share)]
    weights = None
    if examples.weights is not None:  # of all rows, one process's after another's, as they are joined
        weights = examples.weights[np.concatenate([share for of_rank in by_rank for share in of_rank])]

    def rows() -> Tensor:
        return torch.cat([_rows(system, examples[share], goal, step) for share in shares] or [_no_rows(params, goal)])

    def value(rows: Tensor) -> Tensor:
        if isinstance(goal, Measure):
            return combined(goal, rows, weights)
        own = rows if weights is None else rows * torch.from_numpy(weights).to(rows)[:, None]
        return own.sum() / sum(map(len, parts))

    return team.loss(rows, value, params)


def _rows(system: System, part: Corpus, goal: Goal, step: int) -> Tensor:
    """What the loss of a part is made of: statistics of decisions, or the values of a likelihood."""
    if isinstance(goal, Measure):
        return goal.statistics(part.by_example(system(part, step=step)), part.targets)
    return objective_values(system, part, goal).reshape(-1, 1)


def _no_rows(params: Sequence[Tensor], goal: Goal) -> Tensor:
    return params[0].new_zeros(0, goal.columns if isinstance(goal, Measure) else 1)


class SystemLoss:
    """``goal`` of ``examples`` and its gradient in the parameters of ``system``, all in a row.

    The parameters are those of the last vector asked for. Warnings that inference did not converge are not shown.
    """

    def __init__(self, system: System, examples: Given, goal: Goal) -> None:
        corpus = system.examples(examples)
        system.train()
        system.refresh(corpus)
        params: list[Tensor] = [param for param in system.parameters() if param.requires_grad]
        rows = [np.arange(len(corpus))]
        self._flat = FlatLoss(params, lambda: whole_risk(system, corpus, goal, rows))

    def start(self) -> Vector:
        """The parameters as they were."""
        return self._flat.start()

    def __call__(self, vector: Vector) -> tuple[float, Vector]:
        with ignored_convergence():
            return self._flat(vector)
