r"""Sparse log-linear potentials: tables that are sums of the weights of the features that fire.

In: :class:`Features` of each group's factors. Out: log-potentials ``[*batch, factors, *shape]``, and on the way back
gradients for the touched weights only. Stage: numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.potentials.features import Features


@dataclass(frozen=True)
class SparseGroup:
    """How the factors of one group are scored.

    ``shape``: cardinalities of a table. ``features``: rows of the weight table. ``columns``: which column of the
    weights each cell reads, cells in C order; -1 is a cell that is always 0, equal numbers are tied cells; by default
    each cell has its own. ``table``: groups that give one name share one weight table (with hashed features, say).
    """

    shape: tuple[int, ...]
    features: int
    columns: tuple[int, ...] | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ValueError(f"a group needs at least 1 feature, not {self.features}")
        if self.columns is not None:
            if len(self.columns) != math.prod(self.shape):
                raise ValueError(
                    f"{len(self.columns)} columns do not fit a table of {self.shape}: give one for each of its "
                    f"{math.prod(self.shape)} cells"
                )
            if min(self.columns, default=0) < -1:
                raise ValueError(f"column {min(self.columns)} does not exist; columns are -1 (none) or from 0")

    @property
    def cell_columns(self) -> tuple[int, ...]:
        return tuple(range(math.prod(self.shape))) if self.columns is None else self.columns

    @property
    def width(self) -> int:
        """Columns of the weight table."""
        return 1 + max(self.cell_columns, default=-1)


class SparsePotentials(nn.Module):
    r"""Log-potentials :math:`\eta_\alpha(x_\alpha)=\sum_k f_{\alpha k}\,\theta_{k,x_\alpha}`, :math:`f_\alpha` sparse.

    ``groups`` says how each group is scored; :meth:`of` does so for the groups of a graph. Graphs may differ from call
    to call (sentences): only the features know how many factors there are. Weights are zero at first, of ``dtype``;
    tables are given in ``table_dtype`` (the same unless said), sums are carried in double precision.

    ``forward({group: Features})`` returns ``{group: [*batch, factors, *shape]}``; a group with a single feature may be
    left out and is then one table, tied over all factors. Gradients of the weights are sparse tensors over the rows
    touched, which :class:`~loopwise.learn.optim.AdaGradCOMID`, ``torch.optim.SGD`` and ``SparseAdam`` take;
    ``sparse_gradient=False`` makes them dense, for any optimiser. With ``create_graph=True`` they are dense and can
    be differentiated again, whatever was said. O(entries) either way.

    Parameters
    ----------
    groups: how each group is scored.
    dtype, table_dtype: of the weights, and of the tables that they give.
    sparse_gradient: whether gradients are sparse tensors.

    >>> import loopwise as lw
    >>> model = SparsePotentials.of(lw.chain(3, states=4), {"unary": 100, "pair": 1})
    >>> features = Features.of_rows([[17, 3], [5], [99, 17]])
    >>> {name: tuple(table.shape) for name, table in model({"unary": features}).items()}
    {'unary': (3, 4), 'pair': (1, 4, 4)}
    """

    def __init__(
        self,
        groups: Mapping[str, SparseGroup],
        *,
        dtype: torch.dtype = torch.float64,
        table_dtype: torch.dtype | None = None,
        sparse_gradient: bool = True,
    ) -> None:
        super().__init__()
        # Called with a weight table and the rows about to be read, by an optimiser that updates rows lazily.
        self.on_read: Callable[[Tensor, Integers], None] | None = None
        self.graph: FactorGraph | None = None  # where one graph serves all examples
        self.groups = dict(groups)
        self.table_dtype = table_dtype or dtype
        self.sparse_gradient = sparse_gradient
        # Groups that share a table agree on its size; parameters are kept by number, names may hold any character.
        self._table_of, sizes = _places(self.groups)
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(*size, dtype=dtype)) for size in sizes])
        self._columns = {
            name: np.asarray(group.cell_columns, dtype=np.int64).reshape(-1) for name, group in self.groups.items()
        }

    @classmethod
    def of(
        cls,
        graph: FactorGraph,
        features: Mapping[str, int],
        *,
        dtype: torch.dtype = torch.float64,
        table_dtype: torch.dtype | None = None,
        sparse_gradient: bool = True,
    ) -> SparsePotentials:
        """A weight for each feature and cell; ``features`` gives their number for each group of ``graph``."""
        for group in graph.groups:
            if group.name not in features:
                raise ValueError(f"no number of features for group {group.name!r}; given are {list(features)}")
        for name in features:
            graph.group(name)  # refuses a name that the graph does not have
        groups = {group.name: SparseGroup(group.shape, features[group.name]) for group in graph.groups}
        potentials = cls(groups, dtype=dtype, table_dtype=table_dtype, sparse_gradient=sparse_gradient)
        potentials.graph = graph
        return potentials

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "on_read": None}  # a copy has parameters of its own, which no optimiser owns yet

    def weight(self, name: str) -> Tensor:
        """The weight table ``[features, columns]`` that group ``name`` reads."""
        if name not in self.groups:
            raise ValueError(f"no group {name!r}; there are {list(self.groups)}")
        weight: Tensor = self.weights[self._table_of[name]]
        return weight

    def forward(self, features: Mapping[str, Features] | None = None) -> dict[str, Tensor]:
        given = dict(features or {})
        for name in given:
            if name not in self.groups:
                raise ValueError(f"features for unknown group {name!r}; there are {list(self.groups)}")
        return {name: self._tables(name, group, given.get(name)) for name, group in self.groups.items()}

    def _tables(self, name: str, group: SparseGroup, features: Features | None) -> Tensor:
        if features is None:
            if group.features != 1:
                raise ValueError(f"no features for group {name!r}; only a group with a single feature can do without")
            features = Features.of_rows([[0]])
        lowest, highest = features.bounds
        if lowest < 0 or highest >= group.features:
            bad = lowest if lowest < 0 else highest
            raise ValueError(
                f"feature {bad} of group {name!r} is out of range: it has features 0 to {group.features - 1}; "
                "use Features.hashed to map keys into a table"
            )
        if self.on_read is not None:
            self.on_read(self.weight(name), features.index)
        scores = feature_scores(
            self.weight(name), features, self._columns[name], self.table_dtype, self.sparse_gradient
        )
        return scores.reshape(*features.batch, features.factors, *group.shape)


def feature_scores(
    weights: Tensor, features: Features, columns: Integers, dtype: torch.dtype, sparse_gradient: bool
) -> Tensor:
    """``[rows, cells]``: kernels where the weights are on the CPU, plain torch operations elsewhere."""
    if weights.device.type != "cpu":
        return plain_scores(weights, features, columns, dtype)
    scores: Tensor = _Scores.apply(weights, _Rows(features, columns, sparse_gradient), dtype)  # type: ignore[no-untyped-call]
    return scores


def plain_scores(weights: Tensor, features: Features, columns: Integers, dtype: torch.dtype) -> Tensor:
    """The same in torch operations, dense gradients: any device, any order of derivative."""
    device = weights.device
    row = torch.from_numpy(np.repeat(np.arange(features.rows), np.diff(features.start))).to(device)
    picked = weights[torch.from_numpy(features.index.astype(np.int64)).to(device)].to(dtype)
    if features.value is not None:
        picked = picked * torch.from_numpy(features.value).to(device, dtype)[:, None]
    sums = torch.zeros(features.rows, weights.shape[1], dtype=dtype, device=device).index_add(0, row, picked)
    sums = torch.cat([sums, sums.new_zeros(len(sums), 1)], dim=1)  # the column that cells without weights read
    return sums[:, torch.from_numpy(np.where(columns < 0, weights.shape[1], columns)).to(device)]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The matrix of features as a linear map from weights to scores."""

    features: Features
    columns: Integers
    sparse_gradient: bool

    @property
    def _value(self) -> np.ndarray:
        return np.zeros(0) if self.features.value is None else self.features.value

    def scores(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        from loopwise.potentials.kernels.sparse_features import gather_sum

        out = torch.empty(self.features.rows, len(self.columns), dtype=dtype)
        table = weights.detach().contiguous().numpy()
        gather_sum(table, self.features.start, self.features.index, self._value, self.columns, out.numpy())
        return out

    def transposed(self, adjoint: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """The weights touched, ascending, and the sums of their adjoints ``[touched, width]``."""
        from loopwise.potentials.kernels.sparse_features import distinct, scatter_sum

        found, position = distinct(self.features.index)
        order = np.argsort(found)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        sums = torch.zeros(len(found), width, dtype=torch.float64)
        table = adjoint.detach().contiguous().numpy()
        scatter_sum(table, self.features.start, rank[position], self._value, self.columns, sums.numpy())
        return torch.from_numpy(found[order]), sums


class _Scores(torch.autograd.Function):
    """Weights to scores. Its gradient is sparse, unless it is to be differentiated again."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, rows: _Rows, dtype: torch.dtype) -> Tensor:
        ctx.rows, ctx.size, ctx.dtype = rows, weights.shape, weights.dtype
        return rows.scores(weights, dtype)

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled() or not ctx.rows.sparse_gradient:
            dense: Tensor = _Transposed.apply(adjoint, ctx.rows, ctx.size, ctx.dtype)  # type: ignore[no-untyped-call]
            return dense, None, None
        touched, sums = ctx.rows.transposed(adjoint, ctx.size[1])
        sparse = torch.sparse_coo_tensor(
            touched[None], sums.to(ctx.dtype), ctx.size, is_coalesced=True, check_invariants=False
        )
        return sparse, None, None


class _Transposed(torch.autograd.Function):
    """Adjoints of scores to dense adjoints of weights; linear, so its derivative is the map itself."""

    @staticmethod
    def forward(ctx: Any, adjoint: Tensor, rows: _Rows, size: torch.Size, dtype: torch.dtype) -> Tensor:
        ctx.rows, ctx.dtype = rows, adjoint.dtype
        touched, sums = rows.transposed(adjoint, size[1])
        return torch.zeros(size, dtype=dtype).index_copy_(0, touched, sums.to(dtype))

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor, None, None, None]:
        moved: Tensor = _Scores.apply(direction, ctx.rows, ctx.dtype)  # type: ignore[no-untyped-call]
        return moved, None, None, None


def _places(groups: Mapping[str, SparseGroup]) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Number of the weight table of each group, and the sizes of the tables."""
    numbers: dict[str, int] = {}
    sizes: list[tuple[int, int]] = []
    named: dict[str, int] = {}
    for name, group in groups.items():
        if group.table is not None and group.table in named:
            number = named[group.table]
            if sizes[number][0] != group.features:
                raise ValueError(
                    f"groups that share table {group.table!r} give it {sizes[number][0]} and {group.features} features"
                    "; give it one number, or each group a table of its own"
                )
            sizes[number] = (group.features, max(sizes[number][1], group.width))
        else:
            number = len(sizes)
            sizes.append((group.features, group.width))
            if group.table is not None:
                named[group.table] = number
        numbers[name] = number
    return numbers, sizes
