"""Walking a clique's cells block by block, adding up the tables it reads and summing into those it writes.

In: :class:`Ports` and flat tables. Out: blocks of about a thousand cells, which stay in cache. Stage: below
inference.

A block ranges over some axes of the clique, the outer axes are walked. Ports that depend on outer axes only
are one number a block, ports that depend on block axes only are the same in every block and are added up once
a clique (and, written to, summed once), so most cells cost few reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel

BLOCK = 1024  # cells: 8 KiB of doubles, so buffer, exponentials and offsets share the first cache
ROW = 256  # at most so many separator cells in a block, so that values of the eliminated variables fit too
NARROW = 8  # separators of fewer cells are the slow index of a block
INNER, OUTER, MIXED = 0, 1, 2
SHORT = 8  # runs of fewer cells are read cell by cell

FAST = {"reassoc", "contract", "nsz"}  # sums may be reordered; infinities and NaN keep their meaning


class CliqueWorkspace(NamedTuple):
    """Scratch arrays of one thread, as large as the largest clique's blocks need."""

    cells: Any  # [block]
    tangents: Any  # [block]
    sums: Any  # [block]
    tops: Any  # [block]
    axes: Any  # [axes]: block axes, slowest first
    outer: Any  # [axes]: the other axes, slowest first
    digits: Any  # [axes]
    base: Any  # [ports of a clique]: current offset
    fixed: Any  # [block]: sum of the ports that are the same in every block
    whole: Any  # [block]: sum of all blocks
    place: Any  # [ports]: the axes it depends on, one of INNER, OUTER, MIXED
    kind: Any  # [ports]: 0 gather, 1 constant along a run, 2 contiguous along a run
    run: Any  # [ports]: cells in a run
    map_start: Any  # [ports + 1]
    maps: Any  # offsets of the runs of each port


@callee
def geometry(size, begin, end, eliminated, axes, outer):
    """Splits a clique's axes into those of a block and outer ones.

    Returns axes in a block, outer axes, block cells of the separator, of the eliminated, outer cells of each,
    and whether the separator is the block's fast index."""
    first_kept = begin + eliminated
    separator = 1
    for axis in range(first_kept, end):
        separator *= size[axis]
        if separator >= NARROW:
            break
    wide = separator >= NARROW
    kept, gone = 1, 1
    kept_from, gone_from = end, first_kept
    while kept_from > first_kept and (kept_from == end or kept * size[kept_from - 1] <= ROW or not wide):
        kept_from -= 1
        kept *= size[kept_from]
    while gone_from > begin and (kept * gone * size[gone_from - 1] <= BLOCK or (gone_from == first_kept and not wide)):
        gone_from -= 1
        gone *= size[gone_from]
    inner = 0
    if wide:
        for axis in range(gone_from, first_kept):
            axes[inner] = axis - begin
            inner += 1
    for axis in range(kept_from, end):
        axes[inner] = axis - begin
        inner += 1
    if not wide:
        for axis in range(gone_from, first_kept):
            axes[inner] = axis - begin
            inner += 1
    rest, outer_kept, outer_gone = 0, 1, 1
    for axis in range(first_kept, kept_from):
        outer[rest] = axis - begin
        rest += 1
        outer_kept *= size[axis]
    for axis in range(begin, gone_from):
        outer[rest] = axis - begin
        rest += 1
        outer_gone *= size[axis]
    return inner, rest, kept, gone, outer_kept, outer_gone, wide


@kernel
def workspace_sizes(ports):
    """Largest block, axes, ports and map length of any clique."""
    largest = np.ones(4, dtype=np.int64)
    most_axes = 1
    for clique in range(len(ports.eliminated)):
        most_axes = max(most_axes, ports.clique_start[clique + 1] - ports.clique_start[clique])
    axes, outer = np.empty(most_axes, dtype=np.int64), np.empty(most_axes, dtype=np.int64)
    largest[1] = most_axes
    for clique in range(len(ports.eliminated)):
        begin, end = ports.clique_start[clique], ports.clique_start[clique + 1]
        _, _, kept, gone, _, _, _ = geometry(ports.size, begin, end, ports.eliminated[clique], axes, outer)
        count = ports.port_start[clique + 1] - ports.port_start[clique]
        largest[0] = max(largest[0], kept * gone)
        largest[2] = max(largest[2], count)
        largest[3] = max(largest[3], count * kept * gone)
    return largest


@callee
def workspace(sizes):
    block, axes, ports, maps = sizes
    return CliqueWorkspace(
        np.empty(block), np.empty(block), np.empty(block), np.empty(block),
        np.empty(axes, dtype=np.int64), np.empty(axes, dtype=np.int64), np.zeros(axes, dtype=np.int64),
        np.empty(ports, dtype=np.int64), np.empty(block), np.empty(block), np.empty(ports, dtype=np.int64),
        np.empty(ports, dtype=np.int64), np.empty(ports, dtype=np.int64), np.empty(ports + 1, dtype=np.int64),
        np.empty(maps, dtype=np.int64),
    )  # fmt: skip


@callee
def _map_port(size, begin, stride, work, inner, slot, block):
    """Finds the runs of one port within a block and lists their offsets."""
    run, kind, axis = 1, 0, inner
    while axis > 0:
        step, cells = stride[work.axes[axis - 1]], size[begin + work.axes[axis - 1]]
        if cells > 1:
            if run == 1 and step <= 1:
                kind = 1 + step
            elif run == 1 or step != (0 if kind == 1 else run):
                break
            run *= cells
        axis -= 1
    if run < SHORT and run < block:
        run, kind, axis = 1, 0, inner
    if run == 1:
        kind = 0
    work.kind[slot] = kind
    work.run[slot] = run
    place = work.map_start[slot]
    work.map_start[slot + 1] = place + block // run
    work.maps[place] = 0
    filled = 1
    for index in range(axis - 1, -1, -1):  # fastest remaining axis first: each further axis repeats what is there
        step = stride[work.axes[index]]
        for value in range(1, size[begin + work.axes[index]]):
            for entry in range(filled):
                work.maps[place + value * filled + entry] = work.maps[place + entry] + value * step
        filled *= size[begin + work.axes[index]]


@callee
def prepare(ports, work, clique, first, last):
    """Block geometry of a clique and the maps of its ports ``first`` to ``last``."""
    begin, end = ports.clique_start[clique], ports.clique_start[clique + 1]
    shape = geometry(ports.size, begin, end, ports.eliminated[clique], work.axes, work.outer)
    inner, rest, kept, gone = shape[0], shape[1], shape[2], shape[3]
    work.map_start[0] = 0
    for port in range(first, last):
        slot = port - first
        stride = ports.stride[ports.stride_start[port] : ports.stride_start[port + 1]]
        _map_port(ports.size, begin, stride, work, inner, slot, kept * gone)
        work.base[slot] = ports.offset[port]
        outside = False
        for index in range(rest):
            outside = outside or stride[work.outer[index]] != 0
        constant = work.kind[slot] == 1 and work.run[slot] == kept * gone
        work.place[slot] = (OUTER if constant else MIXED) if outside else INNER
    for index in range(rest):
        work.digits[index] = 0
    return shape


@callee
def advance(ports, work, clique, first, last, rest):
    """Moves all ports on to the next block."""
    begin = ports.clique_start[clique]
    index = rest - 1
    while index >= 0:
        axis = work.outer[index]
        cells = ports.size[begin + axis]
        work.digits[index] += 1
        if work.digits[index] < cells:
            for port in range(first, last):
                work.base[port - first] += ports.stride[ports.stride_start[port] + axis]
            return
        work.digits[index] = 0
        for port in range(first, last):
            work.base[port - first] -= (cells - 1) * ports.stride[ports.stride_start[port] + axis]
        index -= 1


@callee(fastmath=FAST)
def read(cells, source, work, slot, block):
    """Adds a port's block to ``cells``."""
    base, kind, run, place = work.base[slot], work.kind[slot], work.run[slot], work.map_start[slot]
    if kind == 0:
        maps = work.maps[place : place + block]
        for index in range(block):
            cells[index] += source[base + maps[index]]
    elif kind == 1:
        for number in range(block // run):
            value = source[base + work.maps[place + number]]
            row = cells[number * run : (number + 1) * run]
            for index in range(run):
                row[index] += value
    else:
        for number in range(block // run):
            begin = base + work.maps[place + number]
            piece = source[begin : begin + run]
            row = cells[number * run : (number + 1) * run]
            for index in range(run):
                row[index] += piece[index]


@callee(fastmath=FAST)
def write(cells, target, work, slot, block):
    """Adds ``cells`` to a port's block, summing over the axes it lacks."""
    base, kind, run, place = work.base[slot], work.kind[slot], work.run[slot], work.map_start[slot]
    if kind == 0:
        maps = work.maps[place : place + block]
        for index in range(block):
            target[base + maps[index]] += cells[index]
    elif kind == 1:
        for number in range(block // run):
            row = cells[number * run : (number + 1) * run]
            total = 0.0
            for index in range(run):
                total += row[index]
            target[base + work.maps[place + number]] += total
    else:
        for number in range(block // run):
            begin = base + work.maps[place + number]
            piece = target[begin : begin + run]
            row = cells[number * run : (number + 1) * run]
            for index in range(run):
                piece[index] += row[index]


@callee
def read_fixed(source, work, first, begin, end, block):
    """Adds ports ``begin`` to ``end`` to what is the same in every block."""
    for slot in range(begin - first, end - first):
        if work.place[slot] == INNER:
            read(work.fixed, source, work, slot, block)


@callee
def read_outer(source, work, first, begin, end):
    """Sum of those ports ``begin`` to ``end`` that are one number in this block."""
    total = 0.0
    for slot in range(begin - first, end - first):
        if work.place[slot] == OUTER:
            total += source[work.base[slot]]
    return total


@callee
def read_mixed(cells, source, work, first, begin, end, block):
    for slot in range(begin - first, end - first):
        if work.place[slot] == MIXED:
            read(cells, source, work, slot, block)


@callee(fastmath=FAST)
def tally(cells, work, block):
    """Adds a block to the sum of all blocks; returns its own sum."""
    total, whole = 0.0, work.whole
    for index in range(block):
        whole[index] += cells[index]
        total += cells[index]
    return total


@callee
def write_block(cells, target, total, work, first, begin, end, block):
    """Sums a block into ports ``begin`` to ``end``, save those that :func:`write_whole` serves."""
    for slot in range(begin - first, end - first):
        if work.place[slot] == OUTER:
            target[work.base[slot]] += total
        elif work.place[slot] == MIXED:
            write(cells, target, work, slot, block)


@callee
def write_whole(target, work, first, begin, end, block):
    """Sums all blocks together into the ports that are the same in every block."""
    for slot in range(begin - first, end - first):
        if work.place[slot] == INNER:
            write(work.whole, target, work, slot, block)
