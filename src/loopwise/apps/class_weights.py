r"""Class weights: what a right answer of each class counts, in any loss of marginals and in likelihoods.

In: ``class_weight`` as scikit-learn has it, labels, a loss. Out: one weight a class; the loss with these weights.
Stage: use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import Evidence, Role
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.base import Inference
from loopwise.inference.by_variable import state_values
from loopwise.learn.evaluate import Goal
from loopwise.loss.base import OnVariables
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.loss.reduction import Pooled, Reduction
from loopwise.loss.targets import Targets
from loopwise.loss.univariate import Hamming

Floats = NDArray[np.float64]

BALANCED = "balanced"  # scikit-learn's word for weights that make all classes count alike


def class_weights(wish: Any, classes: NDArray[Any], codes: Integers) -> Floats:
    r"""One weight for each of ``classes``.

    ``wish``: None (all 1); ``"balanced"``, :math:`n / (K n_k)` with :math:`n_k` answers of class k among the ``codes``
    (-1: no answer); or a mapping from labels to weights, 1 where it has none.
    """
    if wish is None:
        return np.ones(len(classes))
    if isinstance(wish, str):
        if wish != BALANCED:
            raise ValueError(
                f"class_weight is {wish!r}; it must be None, {BALANCED!r} or a mapping of labels to numbers"
            )
        counts = np.bincount(codes[codes >= 0], minlength=len(classes)).astype(np.float64)
        balanced: Floats = counts.sum() / (len(classes) * np.maximum(counts, 1.0))
        return balanced
    if not isinstance(wish, Mapping):
        raise ValueError(
            f"class_weight must be None, {BALANCED!r} or a mapping of labels to numbers, not {type(wish).__name__}"
        )
    labels = classes.tolist()
    if wish and not any(label in wish for label in labels):
        raise ValueError(
            f"class_weight has weights for {list(wish)[:8]}, none of which is a class; name some of {labels}"
        )
    found = np.array([float(wish.get(label, 1.0)) for label in labels])
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if bad.size:
        raise ValueError(f"the class weight of {labels[bad[0]]!r} is {found[bad[0]]}; weights must be 0 or positive")
    if not found.any():
        raise ValueError("all class weights are 0, so nothing counts; give at least one class a weight")
    return found


def weights_of_each(wish: Any, classes: Sequence[NDArray[Any]], codes: Integers) -> list[Floats]:
    """The same for several outputs: a list has a wish for each, anything else is the wish of all. ``codes`` ``[n,
    outputs]``."""
    wishes = list(wish) if isinstance(wish, list | tuple) else [wish] * len(classes)
    if len(wishes) != len(classes):
        raise ValueError(
            f"class_weight lists weights for {len(wishes)} outputs; there are {len(classes)}, give one for each"
        )
    return [
        class_weights(own, known, codes[:, place])
        for place, (own, known) in enumerate(zip(wishes, classes, strict=True))
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassWeighted(OnVariables):
    r""":math:`\sum_i w_{y_i}\,\ell_i / \sum_i w_{y_i}` over all scored variables, :math:`\ell_i` those of ``loss``.

    ``weights``: one for each value of a variable ``[K]``, or one for each state of the graph ``[states]``. The average
    is over the whole corpus: in an example with one output the weights would cancel.
    """

    loss: OnVariables
    weights: Floats
    reduction: Reduction = field(default_factory=Pooled)

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return self.loss.pointwise(probabilities, allowed)

    def variable_weights(self, targets: Targets, like: Tensor) -> Tensor:
        by_state = Hamming(weights=state_weights(targets.graph, self.weights))
        return self.loss.variable_weights(targets, like) * by_state.variable_weights(targets, like)


@dataclass(frozen=True, eq=False)
class ClassWeightedObjective(LikelihoodObjective):
    r""":math:`\frac1n\sum_k \big(\prod_i w_{y_i}\big)\,\ell^k`: a likelihood whose examples have weights.

    A joint likelihood is no sum over outputs, so examples are weighted: by the product of the weights of their known
    answers, as scikit-learn does with several outputs.
    """

    objective: LikelihoodObjective
    weights: Floats  # [states]

    @property
    def joint(self) -> bool:
        """Whether inputs are scored as well."""
        return bool(getattr(self.objective, "joint", False))

    def per_example(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        values = self.objective.per_example(inference, graph, potentials, evidence)
        return values * torch.from_numpy(self._of_examples(graph, evidence)).to(values)

    def _of_examples(self, graph: FactorGraph, evidence: Evidence) -> Floats:
        answers = evidence.clamp((Role.OUTPUT,))
        own = self.weights[graph.layout.state_start[:-1] + np.maximum(answers, 0)]
        found: Floats = np.where(answers >= 0, own, 1.0).prod(-1)
        return found


def weighted(goal: Goal, weights: Floats) -> Goal:
    """``goal`` with class weights ``[K]`` or ``[states]``; a goal that has no place for them is an error."""
    if isinstance(goal, LikelihoodObjective):
        return ClassWeightedObjective(goal, weights)
    if isinstance(goal, OnVariables):
        return ClassWeighted(loss=goal, weights=weights)
    raise ValueError(
        f"class_weight means nothing to {type(goal).__name__}, which is no sum over answers: leave class_weight out "
        "(an F measure has beta and positive to say what counts), or choose a loss such as lw.loss.MSE()"
    )


def state_weights(graph: FactorGraph, weights: Floats) -> Floats:
    """Weights ``[K]`` of values spread over the states of a graph; weights ``[states]`` as they are."""
    if len(weights) == graph.layout.states:
        return weights
    spread: Floats = weights[state_values(graph, torch.device("cpu")).numpy()]
    return spread
