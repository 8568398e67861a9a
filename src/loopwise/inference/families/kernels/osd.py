"""Ordered statistics: the checks solved for the bits that are most likely flipped, and what others may change about it.

In: columns of the check matrix, an order of the bits for each shot, syndromes, costs of flips. Out: a solution for each
shot, the cheapest of those tried (Fossorier & Lin 1995; Panteleev & Kalachev 2021). Rows of the matrix, columns in the
shot's order, are words of 64 bits, reduced until each of the first independent columns has one row of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_kernel

EXHAUSTIVE, COMBINATIONS = 0, 1


class CheckColumns(NamedTuple):
    """The checks of each bit, and how many checks are independent."""

    start: Any  # [bits + 1]
    check: Any
    checks: int
    rank: int


class Reduced(NamedTuple):
    """Room for one shot."""

    words: Any  # uint64 [checks, words]; the last one holds the syndrome
    pivots: Any  # places in the order, [checks]
    others: Any  # the places that are none, [bits]
    signed: Any  # of each pivot: what flipping it would cost now, [checks]
    gains: Any  # of each other place: what flipping it would cost, [bits]


@fused_callee
def set_up(columns, order, syndrome, words):
    words[:] = 0
    last = words.shape[1] - 1
    for place in range(order.shape[0]):
        bit = np.uint64(1) << np.uint64(place & 63)
        for e in range(columns.start[order[place]], columns.start[order[place] + 1]):
            words[columns.check[e], place >> 6] |= bit
    for c in range(columns.checks):
        words[c, last] = syndrome[c]


@fused_callee
def add_row(words, source, target, first):
    for w in range(first, words.shape[1]):
        words[target, w] ^= words[source, w]


@fused_callee
def reduce_rows(columns, bits, room):
    """Gauss and Jordan; returns the number of pivots, and of other places seen before the last pivot."""
    words, rank, others = room.words, 0, 0
    for place in range(bits):
        if rank == columns.rank:
            break
        w, shift = place >> 6, np.uint64(place & 63)
        found = -1
        for row in range(rank, columns.checks):
            if (words[row, w] >> shift) & np.uint64(1):
                found = row
                break
        if found < 0:
            room.others[others] = place
            others += 1
            continue
        if found != rank:
            for at in range(w, words.shape[1]):
                words[rank, at], words[found, at] = words[found, at], words[rank, at]
        for row in range(columns.checks):
            if row != rank and (words[row, w] >> shift) & np.uint64(1):
                add_row(words, rank, row, w)
        room.pivots[rank] = place
        rank += 1
    return rank, others


@fused_callee
def cost_of(words, place, rank, signed, own):
    """What flipping one place, and the pivots that follow it, would cost."""
    w, shift = place >> 6, np.uint64(place & 63)
    for row in range(rank):
        if (words[row, w] >> shift) & np.uint64(1):
            own += signed[row]
    return own


@fused_callee
def shared_cost(words, one, other, rank, signed):
    """The part that two places have in common, which flipping both leaves as it is."""
    w, v = one >> 6, other >> 6
    shift, tilt = np.uint64(one & 63), np.uint64(other & 63)
    found = 0.0
    for row in range(rank):
        if (words[row, w] >> shift) & (words[row, v] >> tilt) & np.uint64(1):
            found += signed[row]
    return found


@fused_callee
def flip(words, place, rank, last, signed):
    """Flips a place: pivots follow, what they cost changes its sign."""
    w, shift = place >> 6, np.uint64(place & 63)
    for row in range(rank):
        if (words[row, w] >> shift) & np.uint64(1):
            words[row, last] ^= np.uint64(1)
            signed[row] = -signed[row]


@fused_callee
def try_pairs(order, costs, room, rank, others, depth, chosen):
    """Each other place alone, and pairs of the first ``depth``; the best in ``chosen``, how many it is returned."""
    words, best, count = room.words, 0.0, 0
    for k in range(others):
        place = room.others[k]
        room.gains[k] = cost_of(words, place, rank, room.signed, costs[order[place]])
        if room.gains[k] < best:
            best, count, chosen[0] = room.gains[k], 1, place
    for k in range(min(depth, others)):
        for j in range(k):
            both = shared_cost(words, room.others[k], room.others[j], rank, room.signed)
            value = room.gains[k] + room.gains[j] - 2.0 * both
            if value < best:
                best, count, chosen[0], chosen[1] = value, 2, room.others[k], room.others[j]
    return count


@fused_callee
def try_all(order, costs, room, rank, others, depth, chosen):
    """All sets of the first ``depth`` other places, one flip from set to set; ends as it began."""
    words, last, size = room.words, room.words.shape[1] - 1, min(depth, others)
    total, best, code, best_code = 0.0, 0.0, 0, 0
    for number in range(1, 1 << size):
        k = 0
        while not (number >> k) & 1:
            k += 1
        place, on = room.others[k], (code >> k) & 1
        own = costs[order[place]]
        total += cost_of(words, place, rank, room.signed, -own if on else own)
        flip(words, place, rank, last, room.signed)
        code ^= 1 << k
        if total < best:
            best, best_code = total, code
    count = 0
    for k in range(size):
        if (code >> k) & 1:
            flip(words, room.others[k], rank, last, room.signed)
        if (best_code >> k) & 1:
            chosen[count] = room.others[k]
            count += 1
    return count


@fused_kernel
def solve_shots(columns, order, syndromes, costs, way, depth, hard, fine):
    """A solution ``hard`` for each shot; ``fine`` says whether there is one. ``depth`` 0: the first one."""
    bits = order.shape[1]
    room = Reduced(
        np.zeros((columns.checks, (bits + 63) // 64 + 1), np.uint64), np.zeros(columns.checks, np.int64),
        np.zeros(bits, np.int64), np.zeros(columns.checks), np.zeros(bits),
    )  # fmt: skip
    chosen, last = np.zeros(max(depth, 2), np.int64), room.words.shape[1] - 1
    for shot in range(order.shape[0]):
        mine = order[shot]
        set_up(columns, mine, syndromes[shot], room.words)
        rank, others = reduce_rows(columns, bits, room)
        fine[shot] = True
        for row in range(rank, columns.checks):
            if room.words[row, last]:
                fine[shot] = False
        if depth > 0 and fine[shot]:
            for row in range(rank):
                cost = costs[mine[room.pivots[row]]]
                room.signed[row] = -cost if room.words[row, last] else cost
            if rank > 0:
                for place in range(room.pivots[rank - 1] + 1, bits):
                    room.others[others] = place
                    others += 1
            if way == COMBINATIONS:
                count = try_pairs(mine, costs, room, rank, others, depth, chosen)
            else:
                count = try_all(mine, costs, room, rank, others, depth, chosen)
            for one in range(count):
                flip(room.words, chosen[one], rank, last, room.signed)
                hard[shot, mine[chosen[one]]] = 1
        for row in range(rank):
            hard[shot, mine[room.pivots[row]]] = room.words[row, last]
