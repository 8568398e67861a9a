"""Working on flat states variable by variable, without padding.

In: tensors ``[*batch, states]`` (the values of all variables, one after another) and a function of blocks. Out: the
same shape, or one number a variable. Stage: inference; decoders and losses both build on it. Variables of one
cardinality form one dense block, so there is one call of the function for each distinct cardinality, and no padding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph

Labels = int | Collection[int]  # one value, or several


def map_variables(graph: FactorGraph, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """``function`` of blocks ``[*batch, count, cardinality]``, giving such a block: ``[*batch, states]``.

    Each of ``tensors`` ends in the axis of states; batch dimensions are the function's to broadcast.
    """
    pieces = [function(*block) for block in _blocks(graph, tensors)]
    return _joined(graph, [piece.flatten(-2) for piece in pieces], tensors, _state_order)


def reduce_variables(graph: FactorGraph, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """``function`` of blocks ``[*batch, count, cardinality]``, giving ``[*batch, count]``: ``[*batch, variables]``."""
    pieces = [function(*block) for block in _blocks(graph, tensors)]
    return _joined(graph, pieces, tensors, _variable_order)


def spread(graph: FactorGraph, values: Tensor) -> Tensor:
    """Each variable's number beside each of its states: ``[*batch, variables]`` to ``[*batch, states]``."""
    return values.index_select(-1, torch.tensor(graph.layout.state_variable, device=values.device))


def state_values(graph: FactorGraph, device: torch.device) -> Tensor:
    """The value that each state stands for, ``[states]``."""
    layout = graph.layout
    return torch.tensor(np.arange(layout.states) - layout.state_start[layout.state_variable], device=device)


def state_places(graph: FactorGraph, values: Tensor) -> Tensor:
    """The states of an assignment ``[*batch, variables]``."""
    return values + torch.tensor(graph.layout.state_start[:-1], device=values.device)


def point_masses(graph: FactorGraph, values: Tensor, like: Tensor) -> Tensor:
    """Distributions ``[*batch, states]`` that put everything on ``values`` ``[*batch, variables]``."""
    states = torch.zeros(*values.shape[:-1], graph.layout.states, dtype=like.dtype, device=like.device)
    return states.scatter_(-1, state_places(graph, values.to(like.device)), 1.0)


def labels_mask(graph: FactorGraph, labels: Labels, device: torch.device) -> Tensor:
    """Which states have one of ``labels`` as their value, bool ``[states]``."""
    wanted = label_list(labels)
    largest = int(graph.cardinalities.max(initial=0)) - 1
    for label in wanted:
        if not 0 <= label <= largest:
            raise ValueError(f"positive label {label} is no value of any variable; values go from 0 to {largest}")
    return torch.isin(state_values(graph, device), torch.tensor(wanted, dtype=torch.int64, device=device))


def label_list(labels: Labels) -> list[int]:
    """Labels as a list; at least one."""
    wanted = [labels] if isinstance(labels, int) else list(labels)
    if not wanted:
        raise ValueError("no positive label is given; name at least one")
    return wanted


def _blocks(graph: FactorGraph, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors cut into blocks of one cardinality."""
    if graph.uniform_cardinality is not None:
        shape = (graph.variables, graph.uniform_cardinality)
        return [[tensor.reshape(*tensor.shape[:-1], *shape) for tensor in tensors]]
    blocks = []
    for size, members in _members(graph):
        places = (graph.layout.state_start[members][:, None] + np.arange(size)).reshape(-1)
        index = torch.tensor(places, device=tensors[0].device)
        blocks.append(
            [tensor.index_select(-1, index).reshape(*tensor.shape[:-1], len(members), size) for tensor in tensors]
        )
    return blocks


def _members(graph: FactorGraph) -> list[tuple[int, np.ndarray]]:
    sizes = np.unique(graph.cardinalities)
    return [(int(size), np.flatnonzero(graph.cardinalities == size)) for size in sizes]


def _joined(
    graph: FactorGraph,
    pieces: list[Tensor],
    tensors: Sequence[Tensor],
    order: Callable[[FactorGraph], np.ndarray],
) -> Tensor:
    """The pieces one after another, then put back into the order of the graph."""
    if not pieces:  # a graph without variables
        return tensors[0][..., :0]
    if len(pieces) == 1:
        return pieces[0]
    back = np.argsort(order(graph))
    return torch.cat(pieces, -1).index_select(-1, torch.tensor(back, device=pieces[0].device))


def _variable_order(graph: FactorGraph) -> np.ndarray:
    return np.argsort(graph.cardinalities, kind="stable")


def _state_order(graph: FactorGraph) -> np.ndarray:
    return np.argsort(graph.cardinalities[graph.layout.state_variable], kind="stable")
