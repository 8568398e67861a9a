"""How messages and tables stand in memory for the compiled engine.

In: a layout. Out: a :class:`Storage`: the kernels' plan, and the packing of tensors into it and back. Stage: inference.

Three arrangements, one code: *examples* side by side in lanes (batches), *factors* side by side in lanes (one large
graph, flooding), or *plain* (one example after another, for schedules that visit one message at a time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.layout import Layout
from loopwise.kernels import plan as columns
from loopwise.kernels.arithmetic import LANES
from loopwise.kernels.plan import Plan


# Cardinalities of pair factors for which a kernel with literal sizes is compiled.
LITERAL_SIZES = range(2, 6)


class Arrangement(Enum):
    """What stands side by side."""

    EXAMPLES = "examples"
    FACTORS = "factors"
    PLAIN = "plain"


@dataclass(frozen=True)
class Storage:
    """Offsets of one layout in one arrangement; the parts of the plan that do not depend on the potentials."""

    layout: Layout
    arrangement: Arrangement
    groups: np.ndarray  # uint64 [groups, columns]
    edge_base: np.ndarray  # uint64 [edges], in the order of layout.variable_edges
    edge_group: np.ndarray
    edge_member: np.ndarray
    edge_position: np.ndarray
    cell_slots: np.ndarray
    shapes: np.ndarray
    slots: int  # of a block
    kept: dict[Any, Any] = field(default_factory=dict)  # what the last calls had in common

    @staticmethod
    def of(layout: Layout, arrangement: Arrangement) -> Storage:
        """Built once a layout and arrangement, and kept on the layout."""
        if arrangement not in layout.storages:
            layout.storages[arrangement] = Storage._build(layout, arrangement)
        stored: Storage = layout.storages[arrangement]
        return stored

    @staticmethod
    def _build(layout: Layout, arrangement: Arrangement) -> Storage:
        rows = np.zeros((len(layout.message_groups), columns.COLUMNS), dtype=np.uint64)
        bases, edge_groups, edge_members, edge_positions = [], [], [], []
        cell_slots, shapes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        slots = slot_map = shape_map = 0
        for number, member in enumerate(layout.message_groups):
            group, width = member.group, member.width
            in_lanes = arrangement is Arrangement.FACTORS
            members = -(-group.count // LANES) if in_lanes else group.count
            row = rows[number]
            row[columns.ARITY], row[columns.MEMBERS], row[columns.WIDTH] = group.arity, members, width
            row[columns.K0], row[columns.K1] = group.shape[0], group.shape[1]
            row[columns.CELLS], row[columns.SLOT_START] = group.cells, slots
            row[columns.CELL_SLOTS], row[columns.SHAPE] = slot_map, shape_map
            factor = np.repeat(np.arange(group.count), group.arity)
            position = np.tile(np.arange(group.arity), group.count)
            if in_lanes:
                run, lane = factor // LANES, factor % LANES
                bases.append((slots + run * width + member.position_start[position]) * LANES + lane)
            else:
                lanes = LANES if arrangement is Arrangement.EXAMPLES else 1
                bases.append((slots + factor * width + member.position_start[position]) * lanes)
            edge_groups.append(np.full(len(factor), number))
            edge_members.append(factor)
            edge_positions.append(position)
            cell_slots.append(member.cell_slots.reshape(-1))
            shapes.append(np.asarray(group.shape, dtype=np.int64))
            slots += members * width
            slot_map += member.cell_slots.size
            shape_map += group.arity

        def by_variable(pieces: list[np.ndarray]) -> np.ndarray:
            whole = np.concatenate([*pieces, np.zeros(0, dtype=np.int64)])
            return whole[layout.variable_edges].astype(np.uint64)

        return Storage(
            layout,
            arrangement,
            rows,
            by_variable(bases),
            by_variable(edge_groups),
            by_variable(edge_members),
            by_variable(edge_positions),
            np.concatenate(cell_slots),
            np.concatenate(shapes),
            slots,
        )

    @property
    def lanes(self) -> int:
        return 1 if self.arrangement is Arrangement.PLAIN else LANES

    @cached_property
    def literal(self) -> tuple[int, ...]:
        """As long as the commonest small cardinality of pair factors between equal variables."""
        weight: dict[int, int] = {}
        for member in self.layout.message_groups:
            group = member.group
            if group.arity == 2 and group.shape[0] == group.shape[1] and group.shape[0] in LITERAL_SIZES:
                weight[group.shape[0]] = weight.get(group.shape[0], 0) + group.count
        return (0,) * max(weight, key=lambda size: weight[size]) if weight else ()

    @cached_property
    def general(self) -> tuple[int, ...] | None:
        """(0,) if some factor is not for the pair kernel."""
        shapes = [member.group.shape for member in self.layout.message_groups]
        pairs = [len(shape) == 2 and (not self.literal or shape == (len(self.literal),) * 2) for shape in shapes]
        return None if all(pairs) else (0,)

    @cached_property
    def uniform(self) -> tuple[int, ...] | None:
        """As long as the cardinality that all variables share, if it is small."""
        size = self.layout.graph.uniform_cardinality if self.layout.edges else None
        return (0,) * size if size is not None and size in LITERAL_SIZES else None

    @cached_property
    def padded_runs(self) -> list[tuple[int, int]]:
        """Where, in a block of messages, runs of factors stand that do not fill their lanes."""
        found = []
        for row, member in zip(self.groups, self.layout.message_groups, strict=True):
            if self.arrangement is Arrangement.FACTORS and member.group.count % LANES:
                end = (int(row[columns.SLOT_START]) + int(row[columns.MEMBERS]) * member.width) * LANES
                found.append((end - member.width * LANES, end))
        return found

    def blocks(self, examples: int) -> int:
        return -(-examples // LANES) if self.arrangement is Arrangement.EXAMPLES else examples

    def plan(self, groups: np.ndarray, exponents: np.ndarray, unary_block: int, plain: bool = False) -> Plan:
        """The kernels' plan for one call. ``plain``: exponents are all 1, so it may be that of another call."""
        key, known = (exponents.dtype, unary_block), self.kept.get("plan")
        if plain and known is not None and known[0] == key and known[1].groups is groups:
            kept: Plan = known[1]
            return kept
        layout = self.layout
        made = Plan(
            groups,
            layout.state_start,
            layout.variable_edge_start,
            self.edge_base,
            self.edge_group,
            self.edge_member,
            self.edge_position,
            exponents[layout.variable_edges],
            self.cell_slots,
            self.shapes,
            self.slots,
            unary_block,
        )
        if plain:
            self.kept["plan"] = key, made
        return made

    def pack_tables(self, tables: list[Tensor], examples: int, padding: float) -> tuple[np.ndarray, np.ndarray]:
        """All tables in one flat array, and the group rows that say where. A table is ``[factors, cells]`` when all
        examples share it, else ``[examples, factors, cells]``."""
        blocks = self.blocks(examples)
        pieces = [self._pack_table(table, examples, padding) for table in tables]
        key = (blocks, *[(table.ndim == 2, piece.size) for table, piece in zip(tables, pieces, strict=True)])
        known = self.kept.get("groups")
        if known is None or known[0] != key:
            known = self.kept["groups"] = key, self._group_rows(key[1:], blocks)
        empty = np.zeros(0, dtype=pieces[0].dtype if pieces else np.float64)
        return (pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, empty])), known[1]

    def _group_rows(self, sizes: Sequence[tuple[bool, int]], blocks: int) -> np.ndarray:
        """Where the tables of each group stand, given whether examples share them and how many numbers they are."""
        groups, start = self.groups.copy(), 0
        for row, (shared, size) in zip(groups, sizes, strict=True):
            row[columns.TABLE_START] = start
            row[columns.TABLE_BLOCK] = 0 if shared else size // blocks
            row[columns.SHARED] = int(shared and self.arrangement is Arrangement.EXAMPLES)
            start += size
        return groups

    def _pack_table(self, table: Tensor, examples: int, padding: float) -> np.ndarray:
        if self.arrangement is Arrangement.FACTORS:
            table = table.reshape(-1, table.shape[-1])
            rows, cells = table.shape
            full, left = divmod(rows, LANES)
            packed = table.new_empty(full + (left > 0), cells, LANES)
            packed[:full] = table[: full * LANES].reshape(full, LANES, cells).transpose(1, 2)
            if left:
                packed[full] = padding
                packed[full, :, :left] = table[full * LANES :].T
            table = packed
        elif self.arrangement is Arrangement.EXAMPLES and table.ndim == 3:
            return self.pack_examples(table.reshape(examples, -1), padding)
        packed_array: np.ndarray = table.contiguous().numpy().reshape(-1)
        return packed_array

    def pack_examples(self, values: Tensor, padding: float) -> np.ndarray:
        """``[examples, n]`` to ``[block, n, lane]`` (plain: unchanged)."""
        if self.arrangement is not Arrangement.EXAMPLES:
            array: np.ndarray = values.contiguous().numpy().reshape(-1)
            return array
        examples, width = values.shape
        blocks = self.blocks(examples)
        padded = values if examples == blocks * LANES else values.new_full((blocks * LANES, width), padding)
        if padded is not values:
            padded[:examples] = values
        laned: np.ndarray = padded.reshape(blocks, LANES, width).transpose(1, 2).contiguous().numpy().reshape(-1)
        return laned

    def pack_unary(self, unary: Tensor, padding: float) -> np.ndarray:
        """``[states]`` if all examples share them, else ``[examples, states]``."""
        if self.arrangement is Arrangement.EXAMPLES and unary.ndim == 1:
            laned: np.ndarray = unary[:, None].expand(-1, LANES).contiguous().numpy().reshape(-1)
            return laned
        return self.pack_examples(unary, padding)

    def unpack_examples(self, values: np.ndarray, examples: int) -> Tensor:
        """The inverse of :meth:`pack_examples`."""
        tensor = torch.from_numpy(values)
        if self.arrangement is not Arrangement.EXAMPLES:
            return tensor.reshape(examples, -1)
        blocks = self.blocks(examples)
        width = tensor.numel() // max(blocks * LANES, 1)
        return tensor.reshape(blocks, width, LANES).transpose(1, 2).reshape(blocks * LANES, width)[:examples]

    def pick_examples(self, values: np.ndarray, blocks: int, chosen: np.ndarray) -> np.ndarray:
        """Some examples of what :meth:`pack_examples` packed in so many blocks, packed anew; lanes that are left over
        repeat the last of them."""
        if self.arrangement is not Arrangement.EXAMPLES or not len(chosen):
            raise ValueError("only examples that stand in lanes can be picked, and at least one of them")
        places = np.concatenate([chosen, np.repeat(chosen[-1:], -len(chosen) % LANES)])
        rows = values.reshape(blocks, -1, LANES)[places // LANES, :, places % LANES]
        picked: np.ndarray = rows.reshape(-1, LANES, rows.shape[1]).transpose(0, 2, 1).reshape(-1)
        return picked

    def pack_messages(self, messages: Tensor, padding: float) -> np.ndarray:
        """Messages ``[examples, slots]`` in layout order to the arrangement's order."""
        if messages.numel() and not any(messages.stride()) and messages[0, 0] == padding:  # all the same one number
            size = self.blocks(len(messages)) * self.slots * self.lanes
            return np.full(size, padding, dtype=messages[0, 0].numpy().dtype)
        if self.arrangement is not Arrangement.FACTORS:
            return self.pack_examples(messages, padding)
        pieces = []
        for member in self.layout.message_groups:
            size = member.group.count * member.width
            block = messages[0, member.slot_start : member.slot_start + size].reshape(member.group.count, member.width)
            pieces.append(self._pack_table(block, 1, padding))
        packed: np.ndarray = np.concatenate([*pieces, np.zeros(0, dtype=messages.numpy().dtype)])
        return packed

    def uniform_messages(self, dtype: torch.dtype, log: bool, examples: int) -> np.ndarray:
        """Uniform messages for every example, not to be written to."""
        key, known = (dtype, log, self.blocks(examples)), self.kept.get("uniform")
        if known is None or known[0] != key:
            sizes = self.layout.graph.cardinalities[self.layout.edge_variable]
            share = torch.tensor(1.0 / np.repeat(sizes, sizes), dtype=dtype)
            share = torch.log(share) if log else share
            if self.arrangement is Arrangement.FACTORS:
                packed = self.pack_messages(share[None], 0.0 if log else 1.0)
            else:
                packed = share[None, :, None].expand(key[2], -1, self.lanes).contiguous().numpy().reshape(-1)
            known = self.kept["uniform"] = key, packed
        found: np.ndarray = known[1]
        return found

    def unpack_messages(self, values: np.ndarray, examples: int) -> Tensor:
        """The inverse of :meth:`pack_messages`."""
        if self.arrangement is not Arrangement.FACTORS:
            return self.unpack_examples(values, examples)
        pieces = []
        for row, member in zip(self.groups, self.layout.message_groups, strict=True):
            start = int(row[columns.SLOT_START]) * LANES
            size = int(row[columns.MEMBERS]) * member.width * LANES
            pieces.append(self.unpack_factors(values[start : start + size], 1, member.group.count, member.width))
        return torch.cat([piece.reshape(1, -1) for piece in pieces], dim=1) if pieces else torch.zeros(examples, 0)

    def unpack_factors(self, values: np.ndarray, examples: int, count: int, width: int) -> Tensor:
        """Per-factor values of one group, ``[examples, factors, width]``."""
        tensor = torch.from_numpy(values)
        if self.arrangement is Arrangement.FACTORS:
            return tensor.reshape(-1, width, LANES).transpose(1, 2).reshape(1, -1, width)[:, :count]
        if self.arrangement is Arrangement.EXAMPLES:
            return self.unpack_examples(values, examples).reshape(examples, count, width)
        return tensor.reshape(examples, count, width)
