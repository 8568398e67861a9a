"""What images with labels say of a model: the statistics of losses, metrics and likelihoods, and the number they make.

In: potentials, inference, images with labels. Out: a row of statistics an image; a number for all of them. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.grid_crf.features import UNLABELLED, ImageBatch
from loopwise.apps.grid_crf.model import GridPotentials
from loopwise.graph.evidence import Evidence, Role
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.learn.evaluate import Goal
from loopwise.learn.evaluate import combined as combined_measure
from loopwise.loss.base import Measure
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.loss.targets import Targets


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Some images of one size with their answers."""

    block: ImageBatch
    graph: FactorGraph

    @property
    def labels(self) -> Tensor:
        assert self.block.labels is not None
        return self.block.labels

    @cached_property
    def targets(self) -> Targets:
        return Targets.from_values(self.graph, self.labels)

    @cached_property
    def evidence(self) -> Evidence:
        labels = self.labels.numpy()
        return Evidence.of(labels, np.where(labels == UNLABELLED, Role.MISSING, Role.OUTPUT))

    @property
    def scored(self) -> Tensor:
        """How many pixels of each image count."""
        return (self.labels != UNLABELLED).sum(-1).to(torch.float64)


def statistics(
    goals: Sequence[Goal], potentials: GridPotentials, inference: Inference, piece: LabelledImages
) -> list[Tensor]:
    """Of each goal a row an image, ``[images, columns]``; one inference call serves all measures.

    Of an objective: the pixels that count, and its value.
    """
    tables = potentials(piece.block.images)
    beliefs = None
    found = []
    for goal in goals:
        if isinstance(goal, LikelihoodObjective):
            values = goal.per_example(inference, piece.graph, tables, piece.evidence)
            found.append(torch.stack([piece.scored, values.double()], -1))
        else:
            beliefs = inference(piece.graph, tables) if beliefs is None else beliefs
            found.append(goal.statistics(beliefs, piece.targets))
    return found


def combined(goal: Goal, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """The number for the statistics of all images; objectives count by the pixel, and images alike or by weight."""
    if isinstance(goal, Measure):
        return combined_measure(goal, rows, None if weights is None else weights.numpy())
    each = rows[:, 1] / rows[:, 0]
    return each.mean() if weights is None else (each * weights).sum() / weights.sum()


def weights_of_images(pieces: Sequence[LabelledImages]) -> Tensor | None:
    """What each image of some pieces counts, one piece after another; None: all alike."""
    known = [piece.block.weights for piece in pieces if piece.block.weights is not None]
    return torch.cat(known) if known else None


def check_goal(goal: object) -> Goal:
    """Refuses what is neither a loss nor a likelihood."""
    if not isinstance(goal, Measure | LikelihoodObjective):
        raise ValueError(f"{goal!r} is no loss; use one of lw.loss, such as lw.loss.UnivariateLikelihood()")
    return goal
