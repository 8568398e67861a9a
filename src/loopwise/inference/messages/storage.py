"""How messages and tables stand in memory for the compiled engine.

In: a layout. Out: a :class:`Storage`: the kernels' plan, and the packing of tensors into it and back. Stage: inference.

Three arrangements, one code: *examples* side by side in lanes (batches), *factors* side by side in lanes (few examples,
flooding; a single lane for large tables, which stay as they are), or *plain* (one example after another, for schedules
that visit one message at a time).
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
from loopwise.inference.messages.kernels import plan as columns
from loopwise.inference.messages.kernels.plan import Plan

# Cardinalities of pair factors for which a kernel with literal sizes is compiled.
LITERAL_SIZES = range(2, 6)
FEW_MESSAGES = 2**16  # numbers of messages that are worth keeping from call to call: of more, the copy is what costs


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
    lanes: int  # how many examples or factors stand side by side
    groups: np.ndarray  # uint64 [groups, columns]
    edge_base: np.ndarray  # uint64 [edges], in the order of layout.variable_edges
    edge_group: np.ndarray  # these three are empty where factors stand in the lanes
    edge_member: np.ndarray
    edge_position: np.ndarray
    cell_slots: np.ndarray
    shapes: np.ndarray
    slots: int  # of a block
    kept: dict[Any, Any] = field(default_factory=dict)  # what the last calls had in common

    @staticmethod
    def of(layout: Layout, arrangement: Arrangement, lanes: int = 1) -> Storage:
        """Built once a layout, arrangement and number of lanes, and kept on the layout."""
        if (arrangement, lanes) not in layout.storages:
            layout.storages[arrangement, lanes] = Storage._build(layout, arrangement, lanes)
        stored: Storage = layout.storages[arrangement, lanes]
        return stored

    @staticmethod
    def _build(layout: Layout, arrangement: Arrangement, lanes: int) -> Storage:
        rows = np.zeros((len(layout.message_groups), columns.COLUMNS), dtype=np.uint64)
        bases, edge_groups, edge_members, edge_positions = [], [], [], []
        cell_slots, shapes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        slots = slot_map = shape_map = 0
        for number, member in enumerate(layout.message_groups):
            group, width = member.group, member.width
            in_lanes = arrangement is Arrangement.FACTORS
            members = -(-group.count // lanes) if in_lanes else group.count
            row = rows[number]
            row[columns.ARITY], row[columns.MEMBERS], row[columns.WIDTH] = group.arity, members, width
            row[columns.K0], row[columns.K1] = group.shape[0], group.shape[1]
            row[columns.CELLS], row[columns.SLOT_START] = group.cells, slots
            row[columns.CELL_SLOTS], row[columns.SHAPE] = slot_map, shape_map
            factor = np.arange(group.count)
            first = (slots + factor // lanes * width) * lanes + factor % lanes if in_lanes else factor * width * lanes
            offset = 0 if in_lanes else slots * lanes
            bases.append((first[:, None] + (offset + member.position_start[: group.arity] * lanes)).reshape(-1))
            if not in_lanes:  # flooding asks for no single edge
                edge_groups.append(np.full(group.count * group.arity, number))
                edge_members.append(np.repeat(factor, group.arity))
                edge_positions.append(np.tile(np.arange(group.arity), group.count))
            cell_slots.append(member.cell_slots.reshape(-1))
            shapes.append(np.asarray(group.shape, dtype=np.int64))
            slots += members * width
            slot_map += member.cell_slots.size
            shape_map += group.arity

        def by_variable(pieces: list[np.ndarray]) -> np.ndarray:
            if not pieces:
                return np.zeros(0, dtype=np.uint64)
            whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            return whole[layout.variable_edges].view(np.uint64)  # none is negative

        return Storage(
            layout,
            arrangement,
            lanes,
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
    def in_block(self) -> int:
        """Examples in a block."""
        return self.lanes if self.arrangement is Arrangement.EXAMPLES else 1

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
        """(0,) if some factor is not a pair of literal size."""
        size = len(self.literal)
        literally = all(member.group.shape == (size, size) for member in self.layout.message_groups)
        return None if literally and size else (0,)

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
            if self.arrangement is Arrangement.FACTORS and member.group.count % self.lanes:
                end = (int(row[columns.SLOT_START]) + int(row[columns.MEMBERS]) * member.width) * self.lanes
                found.append((end - member.width * self.lanes, end))
        return found

    def blocks(self, examples: int) -> int:
        return -(-examples // self.in_block)

    def plan(self, groups: np.ndarray, exponents: np.ndarray, unary_block: int, plain: bool = False) -> Plan:
        """The kernels' plan for one call. ``plain``: exponents are all 1, so it may be that of another call."""
        key, known = (exponents.dtype, unary_block), self.kept.get("plan")
        if plain and known is not None and known[0] == key and known[1].groups is groups:
            kept: Plan = known[1]
            return kept
        layout = self.layout
        alike = plain or not len(exponents) or bool((exponents == exponents[0]).all())  # then in any order
        made = Plan(
            groups,
            layout.state_start,
            layout.variable_edge_start,
            self.edge_base,
            self.edge_group,
            self.edge_member,
            self.edge_position,
            exponents if alike else exponents[layout.variable_edges],
            self.cell_slots,
            self.shapes,
            self.slots,
            unary_block,
        )
        if plain:
            self.kept["plan"] = key, made
        return made

    def pack_tables(
        self, tables: list[Tensor], examples: int, padding: float, exponentiate: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """All tables in one flat array, or their exponentials, and the group rows that say where. A table is
        ``[factors, cells]`` when all examples share it, else ``[examples, factors, cells]``."""
        blocks, pieces = self.blocks(examples), []
        sizes: list[tuple[bool, int]] = []
        for table in tables:
            packed = self.pack_table(table, examples, padding)
            if exponentiate:
                given = packed.ctypes.data == table.data_ptr()
                piece = torch.from_numpy(packed)
                packed = (torch.exp(piece) if given else piece.exp_()).numpy()  # to fill fresh memory is what costs
            pieces.append(packed)
            sizes.append((table.ndim == 2, packed.size))
        known = self.kept.get("groups")
        if known is None or known[0] != (blocks, sizes):
            known = self.kept["groups"] = (blocks, sizes), self.group_rows(sizes, blocks)
        empty = np.zeros(0, dtype=pieces[0].dtype if pieces else np.float64)
        return (pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, empty])), known[1]

    def group_rows(self, sizes: Sequence[tuple[bool, int]], blocks: int) -> np.ndarray:
        """Where the tables of each group stand, given whether examples share them and how many numbers they are."""
        groups, start = self.groups.copy(), 0
        for row, (shared, size) in zip(groups, sizes, strict=True):
            row[columns.TABLE_START] = start
            row[columns.TABLE_BLOCK] = 0 if shared else size // blocks
            row[columns.SHARED] = int(shared and self.arrangement is Arrangement.EXAMPLES)
            start += size
        return groups

    def pack_table(self, table: Tensor, examples: int, padding: float) -> np.ndarray:
        """One table, flat; ``padding`` for lanes that no example or factor fills."""
        if self.arrangement is Arrangement.FACTORS and self.lanes > 1:
            return self._pack_factors(table[None] if table.ndim == 2 else table, padding)
        if self.arrangement is Arrangement.EXAMPLES and table.ndim == 3:
            return self.pack_examples(table.reshape(examples, -1), padding)
        packed: np.ndarray = table.contiguous().numpy().reshape(-1)
        return packed

    def _pack_factors(self, values: Tensor, padding: float) -> np.ndarray:
        """``[examples, factors, n]`` to ``[example, run of factors, n, lane]``."""
        given = values.numpy()
        examples, rows, width = given.shape
        full, left = divmod(rows, self.lanes)
        packed = np.empty((examples, full + (left > 0), width, self.lanes), dtype=given.dtype)
        whole = given[:, : full * self.lanes].reshape(examples, full, self.lanes, width)
        packed[:, :full] = whole.transpose(0, 1, 3, 2)
        if left:
            packed[:, full] = padding
            packed[:, full, :, :left] = given[:, full * self.lanes :].transpose(0, 2, 1)
        return packed.reshape(-1)

    def pack_examples(self, values: Tensor, padding: float) -> np.ndarray:
        """``[examples, n]`` to ``[block, n, lane]`` (plain: unchanged)."""
        if self.arrangement is not Arrangement.EXAMPLES:
            array: np.ndarray = values.contiguous().numpy().reshape(-1)
            return array
        examples, width = values.shape
        blocks = self.blocks(examples)
        padded = values if examples == blocks * self.lanes else values.new_full((blocks * self.lanes, width), padding)
        if padded is not values:
            padded[:examples] = values
        laned: np.ndarray = padded.reshape(blocks, self.lanes, width).transpose(1, 2).contiguous().numpy().reshape(-1)
        return laned

    def pack_unary(self, unary: Tensor, padding: float) -> np.ndarray:
        """``[states]`` if all examples share them, else ``[examples, states]``."""
        if self.arrangement is Arrangement.EXAMPLES and unary.ndim == 1:
            laned: np.ndarray = unary[:, None].expand(-1, self.lanes).contiguous().numpy().reshape(-1)
            return laned
        return self.pack_examples(unary, padding)

    def unpack_examples(self, values: np.ndarray, examples: int) -> Tensor:
        """The inverse of :meth:`pack_examples`."""
        tensor = torch.from_numpy(values)
        if self.arrangement is not Arrangement.EXAMPLES:
            return tensor.reshape(examples, -1)
        blocks = self.blocks(examples)
        width = tensor.numel() // max(blocks * self.lanes, 1)
        return tensor.reshape(blocks, width, self.lanes).transpose(1, 2).reshape(blocks * self.lanes, width)[:examples]

    def pick_examples(self, values: np.ndarray, blocks: int, chosen: np.ndarray) -> np.ndarray:
        """Some examples of what :meth:`pack_examples` packed in so many blocks, packed anew; lanes that are left over
        repeat the last of them."""
        if self.arrangement is not Arrangement.EXAMPLES or not len(chosen):
            raise ValueError("only examples that stand in lanes can be picked, and at least one of them")
        places = np.concatenate([chosen, np.repeat(chosen[-1:], -len(chosen) % self.lanes)])
        rows = values.reshape(blocks, -1, self.lanes)[places // self.lanes, :, places % self.lanes]
        picked: np.ndarray = rows.reshape(-1, self.lanes, rows.shape[1]).transpose(0, 2, 1).reshape(-1)
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
            block = messages[:, member.slot_start : member.slot_start + size]
            rows = block.reshape(len(messages), member.group.count, member.width)
            pieces.append(self._pack_factors(rows, padding).reshape(len(messages), -1))
        empty = np.zeros((len(messages), 0), dtype=messages.numpy().dtype)
        packed: np.ndarray = np.concatenate([*pieces, empty], axis=1).reshape(-1)
        return packed

    def uniform_messages(self, examples: int, log: bool, dtype: np.dtype) -> np.ndarray:
        """The uniform distribution for every message of every example, or its logarithm."""
        key, known = (examples, log, dtype), self.kept.get("uniform")
        if known is not None and known[0] == key:
            return known[1].copy()  # type: ignore[no-any-return]
        messages = np.empty((self.blocks(examples), self.slots, self.lanes), dtype=dtype)
        for row, member in zip(self.groups, self.layout.message_groups, strict=True):
            start, members = int(row[columns.SLOT_START]), int(row[columns.MEMBERS])
            share = 1.0 / np.repeat(member.group.shape, member.group.shape)
            mine = messages[:, start : start + members * member.width]
            mine = mine.reshape(len(messages), members, member.width, self.lanes)
            mine[:] = (np.log(share) if log else share)[:, None]
        if messages.size <= FEW_MESSAGES:
            self.kept["uniform"] = key, messages.reshape(-1).copy()
        return messages.reshape(-1)

    def unpack_messages(self, values: np.ndarray, examples: int) -> Tensor:
        """The inverse of :meth:`pack_messages`."""
        if self.arrangement is not Arrangement.FACTORS:
            return self.unpack_examples(values, examples)
        blocks, pieces = values.reshape(examples, -1), []
        for row, member in zip(self.groups, self.layout.message_groups, strict=True):
            start = int(row[columns.SLOT_START]) * self.lanes
            size = int(row[columns.MEMBERS]) * member.width * self.lanes
            mine = blocks[:, start : start + size]
            pieces.append(self.unpack_factors(mine, examples, member.group.count, member.width))
        flat = [piece.reshape(examples, -1) for piece in pieces]
        return torch.cat(flat, dim=1) if flat else torch.zeros(examples, 0)

    def unpack_factors(self, values: np.ndarray, examples: int, count: int, width: int) -> Tensor:
        """Per-factor values of one group, ``[examples, factors, width]``."""
        tensor = torch.from_numpy(values)
        if self.arrangement is Arrangement.FACTORS:
            runs = tensor.reshape(examples, -1, width, self.lanes).transpose(2, 3)
            return runs.reshape(examples, -1, width)[:, :count]
        if self.arrangement is Arrangement.EXAMPLES:
            return self.unpack_examples(values, examples).reshape(examples, count, width)
        return tensor.reshape(examples, count, width)
