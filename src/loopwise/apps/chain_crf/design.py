"""Feature vectors as the linear map from weights to scores that the chain engine takes.

In: a matrix ``[elements, features]``, dense or sparse. Out: :class:`MatrixDesign`. Stage: use. The engine, with its
compiled forward-backward and best paths, is the tagger's (:mod:`loopwise.apps.tagger.chains`); only this map differs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from loopwise.apps.multilabel.scaling import compressed
from loopwise.apps.tagger.chains import Floats
from loopwise.apps.tagger.design import Design
from loopwise.potentials.features import Features


class MatrixDesign(Design):
    """Scores are ``matrix`` times weights, plus a ``shift`` ``[elements, K]`` if there is one."""

    matrix: Any
    shift: Floats | None

    def __init__(self, matrix: Any, shift: Floats | None = None) -> None:
        self.__dict__.update(matrix=matrix, shift=shift)  # the base is frozen

    def __repr__(self) -> str:
        return f"MatrixDesign({self.matrix.shape[0]} elements, {self.matrix.shape[1]} features)"

    @property
    def features(self) -> int:
        return int(self.matrix.shape[1])

    def scores(self, weights: Floats, threads: int) -> Floats:
        """``[elements, width]`` for weights ``[features, width]``. One matrix product."""
        found = np.ascontiguousarray(self.matrix @ weights)
        return found if self.shift is None else found + self.shift

    def transposed_scores(self, adjoint: Floats, threads: int, out: Floats | None = None) -> Floats:
        """``[features, width]`` for ``adjoint`` ``[elements, width]``."""
        found: Floats = np.asarray(self.matrix.T @ adjoint)
        if out is None:
            return found
        out[...] = found
        return out

    @cached_property
    def flat(self) -> Features:
        """The features of each element one after another, for learners that go element by element: 0 and 1 only."""
        rows = compressed(self.matrix)
        rows.eliminate_zeros()
        strange = np.flatnonzero(rows.data != 1.0)
        if strange.size:
            raise ValueError(
                f"this learner takes features that are 0 or 1, and one is {rows.data[strange[0]]}; choose a loss "
                "instead, or make features of intervals, with standardize=False"
            )
        return Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32))
