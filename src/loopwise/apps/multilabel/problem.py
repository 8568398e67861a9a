"""What a learner of label sets is given, and as what walks see it.

In: prepared inputs, right labels. Out: :class:`Problem`; documents and a model for :mod:`loopwise.walk`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwise.apps.multilabel.scaling import compressed
from loopwise.apps.multilabel.weights import Integers, LabelWeights, pair_count
from loopwise.graph.factor_graph import FactorGraph
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparseGroup, SparsePotentials

if TYPE_CHECKING:
    from loopwise.walk.graph_model import GraphDocument, GraphModel

PAIR = "pair"


@dataclass(frozen=True, eq=False)
class Problem:
    """``inputs`` ``[examples, features]`` with the constant feature, dense or sparse; ``gold`` 0 or 1, ``[examples,
    labels]``."""

    inputs: Any
    gold: Integers

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def labels(self) -> int:
        return int(self.gold.shape[1])

    @property
    def features(self) -> int:
        return int(self.inputs.shape[1])

    @cached_property
    def rows(self) -> Any:
        """The inputs as a SciPy CSR array."""
        return compressed(self.inputs)

    def start(self) -> LabelWeights:
        """Weights 0."""
        return LabelWeights.zeros(self.labels, self.features)

    def take(self, chosen: Integers) -> Problem:
        """Some of the examples."""
        return Problem(self.inputs[chosen], self.gold[chosen])

    # ---------------------------------------------------------------------------------------- for walks

    def walk_model(self) -> GraphModel:
        """The model of a walk; its weights lie as :class:`LabelWeights` has them."""
        from loopwise.walk.graph_model import GraphModel

        groups = {_name(label): SparseGroup((2,), self.features) for label in range(self.labels)}
        if self.labels > 1:
            groups[PAIR] = SparseGroup((2, 2), pair_count(self.labels))
        return GraphModel(SparsePotentials(groups))

    def documents(self) -> list[GraphDocument]:
        """One document an example. Its input is one row, which all labels share."""
        from loopwise.walk.graph_model import GraphDocument

        graph = walk_graph(self.labels)
        pairs = Features.of_table(np.arange(pair_count(self.labels))[:, None]) if self.labels > 1 else None
        matrix = self.rows
        index, start = matrix.indices.astype(np.int32), matrix.indptr.tolist()
        documents = []
        for example in range(len(self)):
            first, end = start[example], start[example + 1]
            row = Features(
                np.array([0, end - first], dtype=np.int64), index[first:end], matrix.data[first:end].astype(np.float64)
            )
            features = {_name(label): row for label in range(self.labels)}
            if pairs is not None:
                features[PAIR] = pairs
            documents.append(GraphDocument(graph, self.gold[example], features))
        return documents


def walk_graph(labels: int) -> FactorGraph:
    """A group for each label, so that all read the one row of an input, and a group of all pairs."""
    scopes = {_name(label): np.array([[label]]) for label in range(labels)}
    if labels > 1:
        scopes[PAIR] = np.stack(np.triu_indices(labels, 1), axis=1)
    return FactorGraph(np.full(labels, 2), scopes)


def first_row(document: GraphDocument) -> Features:
    """The input of a document that :meth:`Problem.documents` made."""
    return document.features[_name(0)]


def _name(label: int) -> str:
    return f"label {label}"
