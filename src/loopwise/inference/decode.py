"""Reading a joint assignment off max-product beliefs.

In: max-marginals of variables and factors. Out: one value a variable. Stage: inference. Variables are fixed in
breadth-first order, each given those fixed before it, so that ties between optima are broken consistently: on a tree
the result is a true optimum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from loopwise.inference.base import Problem


def decode(problem: Problem, states: Tensor, factor: Callable[[str], Tensor]) -> Tensor:
    """A joint assignment ``[*batch, variables]`` from max-marginals."""
    from loopwise.graph.kernels.order import decode_in_order

    layout = problem.graph.layout
    examples = int(np.prod(problem.batch))
    tables: list[np.ndarray] = []
    cell_slots: list[np.ndarray] = []
    table_start, slots_start = [], []
    marginals = states.detach().reshape(examples, layout.states).cpu().double().numpy()
    for member in layout.message_groups:
        table = (
            factor(member.group.name)
            .detach()
            .reshape(examples, member.group.count, member.group.cells)
            .cpu()
            .double()
            .numpy()
        )
        table_start.append(sum(piece.shape[1] for piece in tables))
        tables.append(table.reshape(examples, member.group.count * member.group.cells))
        slots_start.append(sum(len(piece) for piece in cell_slots))
        cell_slots.append((member.cell_slots - member.position_start[:-1]).reshape(-1))
    counts = [member.group.count for member in layout.message_groups]
    rows = np.array(
        [
            (member.group.arity, member.group.cells, member.edge_start, table_start[k], slots_start[k])
            for k, member in enumerate(layout.message_groups)
        ],
        dtype=np.int64,
    ).reshape(-1, 5)
    result = decode_in_order(
        layout.sequential.variables[::-1].copy(),
        layout.state_start,
        layout.variable_edge_start,
        layout.variable_edges,
        layout.edge_variable,
        np.repeat(
            np.arange(len(counts)), [c * m.group.arity for c, m in zip(counts, layout.message_groups, strict=True)]
        ),
        rows,
        np.concatenate(cell_slots) if cell_slots else np.zeros(0, dtype=np.int64),
        np.concatenate(tables, axis=1) if tables else np.zeros((examples, 0)),
        marginals,
    )
    return torch.tensor(result, device=states.device).reshape(*problem.batch, problem.graph.variables)
