"""Decoding many shots: sweeps until each one's checks are explained, lanes that are done given to others.

In: a graph of parity checks, rules, priors and syndromes. Out: decisions, log-odds, sweeps, whether all is explained.

Where rules are the same in all sweeps, a lane is given to the next shot as soon as its own is done. Where they differ,
shots that share lanes are at the same sweep. At some sweeps, the levels, those that are left move on to the lanes of
the next level and wait there until these are full; only at the end blocks run that are not. So a few stubborn shots
cost few empty lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.inference.families.kernels.parity_lanes import (
    LaneTape,
    State,
    hard_decisions,
    new_room,
    step,
    sweep_once,
    unexplained,
)


class ShotArrays(NamedTuple):
    """What is to be decoded. Log-odds are of 0 against 1."""

    prior: Any  # [1 or shots, variables]
    start: Any  # [0 or shots, variables] beliefs to remember in the first sweep, in place of the prior
    syndrome: Any  # uint8 [shots, checks]


class Found(NamedTuple):
    """What came of it."""

    hard: Any  # uint8 [shots, variables]
    soft: Any  # [0 or shots, variables]
    sweeps: Any  # int32 [shots]
    explained: Any  # bool [shots]


@fused_callee
def state_at(states, block, checks, lanes):
    """The view of one block."""
    edges, variables = U(checks.variable.shape[0]), checks.variables[0]
    m, belief, prior, bias, odd = states.m, states.belief, states.prior, states.bias, states.odd
    count = U(checks.start.shape[0]) - U(1)
    return State(
        m, belief, prior, bias, odd, block * edges * lanes, block * variables * lanes, block * count
    )  # fmt: skip


@fused_callee
def new_states(checks, rules, like, blocks, lane_tag):
    """Room for so many blocks."""
    lanes, edges, variables = lanes_of(lane_tag), U(checks.variable.shape[0]), checks.variables[0]
    biased = blocks if rules.memory.shape[0] > 0 else U(0)
    return State(
        np.zeros(blocks * edges * lanes, like.dtype), np.zeros(blocks * variables * lanes, like.dtype),
        np.zeros(blocks * variables * lanes, like.dtype), np.zeros(biased * variables * lanes, like.dtype),
        np.zeros(blocks * (U(checks.start.shape[0]) - U(1)), np.uint32), U(0), U(0), U(0),
    )  # fmt: skip


@step
def give(checks, rules, state, shots, shot, lane, lane_tag):
    """Log-odds and syndrome of a shot, to a lane."""
    lanes, bit = lanes_of(lane_tag), np.uint32(1) << np.uint32(lane)
    belief, prior, bias, odd = state.belief, state.prior, state.bias, state.odd
    row, begun = shot if shots.prior.shape[0] > 1 else U(0), shots.start.shape[0] > 0
    for v in range(checks.variables[0]):
        here = state.variable + v * lanes + lane
        own = shots.prior[row, v]
        now = shots.start[shot, v] if begun else own
        prior[here], belief[here] = own, now
        if rules.memory.shape[0] > 0:
            bias[here] = now
    for c in range(U(checks.start.shape[0]) - U(1)):
        word = odd[state.check + c] & ~bit
        odd[state.check + c] = word | bit if shots.syndrome[shot, c] != 0 else word


@step
def enter(checks, rules, state, shots, first, count, lane_tag):
    """Shots ``first`` and following begin in the lanes of a block."""
    m, odd = state.m, state.odd
    for place in range(U(checks.variable.shape[0]) * lanes_of(lane_tag)):
        m[state.edge + place] = 0.0
    for c in range(U(checks.start.shape[0]) - U(1)):
        odd[state.check + c] = np.uint32(0)
    for lane in range(count):
        give(checks, rules, state, shots, first + lane, lane, lane_tag)


@step
def enter_lane(checks, rules, state, shots, shot, lane, lane_tag):
    """One shot begins in a lane that another had."""
    lanes, m = lanes_of(lane_tag), state.m
    for e in range(U(checks.variable.shape[0])):
        m[state.edge + e * lanes + lane] = 0.0
    give(checks, rules, state, shots, shot, lane, lane_tag)


@step
def leave(checks, state, words, lane, shot, found, sweeps, explained, lane_tag):
    """One lane's answer."""
    bit, lanes, belief, hard, soft = np.uint32(lane), lanes_of(lane_tag), state.belief, found.hard, found.soft
    for v in range(checks.variables[0]):
        hard[shot, v] = (words[v] >> bit) & np.uint32(1)
    if soft.shape[0] > 0:
        for v in range(checks.variables[0]):
            soft[shot, v] = belief[state.variable + v * lanes + lane]
    found.sweeps[shot], found.explained[shot] = sweeps, explained


@step
def move(checks, rules, source, target, pairs, count, lane_tag):
    """Lanes ``pairs[0]`` of a block go to lanes ``pairs[1]`` of another."""
    lanes = lanes_of(lane_tag)
    for e in range(U(checks.variable.shape[0])):
        for one in range(count):
            source.m[target.edge + e * lanes + pairs[1, one]] = source.m[source.edge + e * lanes + pairs[0, one]]
    for v in range(checks.variables[0]):
        here, there = source.variable + v * lanes, target.variable + v * lanes
        for one in range(count):
            source.belief[there + pairs[1, one]] = source.belief[here + pairs[0, one]]
            source.prior[there + pairs[1, one]] = source.prior[here + pairs[0, one]]
            if rules.memory.shape[0] > 0:
                source.bias[there + pairs[1, one]] = source.bias[here + pairs[0, one]]
    for c in range(U(checks.start.shape[0]) - U(1)):
        word, old = source.odd[target.check + c], source.odd[source.check + c]
        for one in range(count):
            bit = (old >> np.uint32(pairs[0, one])) & np.uint32(1)
            place = np.uint32(pairs[1, one])
            word = (word & ~(np.uint32(1) << place)) | (bit << place)
        source.odd[target.check + c] = word


@step
def next_level(count, shots, begun, lanes):
    """The deepest level whose lanes are full; the first if shots are left to begin; else the first with any; -1."""
    for back in range(count.shape[0]):
        level = count.shape[0] - 1 - back
        if count[level] >= lanes:
            return level
    if begun < shots:
        return 0
    for level in range(count.shape[0]):
        if count[level] > 0:
            return level
    return -1


@fused_kernel
def decode_in_turn(checks, rules, state, shots, found, most, layered, lane_tag, rule):
    """Decodes all shots in one block, in at most so many sweeps each, by rules that are the same in all sweeps.
    ``state``: room for the block, whatever it holds. Returns how many sweeps the block made."""
    lanes, total = lanes_of(lane_tag), U(shots.syndrome.shape[0])
    work, nothing = new_room(checks, shots.prior, lane_tag), np.empty(0, shots.prior.dtype)
    tape, words = LaneTape(nothing, nothing, nothing), np.empty(checks.variables[0], np.uint32)
    who, made = np.zeros(lanes, U), np.zeros(lanes, np.int64)
    begun, active, done = min(lanes, total), np.uint32(0), 0
    enter(checks, rules, state, shots, U(0), begun, lane_tag)
    for lane in range(begun):
        who[lane] = lane
        active |= np.uint32(1) << np.uint32(lane)
    while active != 0:
        sweep_once(checks, rules, state, work, tape, 0, layered, lane_tag, rule)
        done += 1
        hard_decisions(checks, state, words, lane_tag)
        wrong = unexplained(checks, state, words)
        for lane in range(lanes):
            bit = np.uint32(1) << np.uint32(lane)
            if active & bit:
                made[lane] += 1
                if made[lane] == most or (wrong & bit) == 0:
                    leave(checks, state, words, lane, who[lane], found, made[lane], (wrong & bit) == 0, lane_tag)
                    if begun < total:
                        enter_lane(checks, rules, state, shots, begun, lane, lane_tag)
                        who[lane], made[lane] = begun, 0
                        begun += U(1)
                    else:
                        active &= ~bit
    return done


@fused_kernel
def decode_shots(checks, rules, states, shots, found, levels, stops, layered, lane_tag, rule):
    """Decodes all shots. ``states``: room for two blocks of each level, whatever it holds; ``levels``: sweeps at which
    shots may move, from 0 to the limit; ``stops`` False: all sweeps are made, whatever is explained. Returns the sweeps
    of blocks, what the time goes into."""
    lanes, depth = lanes_of(lane_tag), levels.shape[0] - 1
    work = new_room(checks, shots.prior, lane_tag)
    nothing = np.empty(0, shots.prior.dtype)
    tape, words = LaneTape(nothing, nothing, nothing), np.empty(checks.variables[0], np.uint32)
    who, pairs = np.zeros((2 * depth, lanes), np.int64), np.zeros((2, lanes), np.uintp)
    count, front = np.zeros(depth, np.int64), np.zeros(depth, np.int64)  # the second block of a level is 1 - front
    begun, total, done = 0, shots.syndrome.shape[0], 0
    while True:
        level = next_level(count, total, begun, np.int64(lanes))
        if level < 0:
            return done
        block = 2 * level + front[level]
        state = state_at(states, U(block), checks, lanes)
        if level == 0 and count[0] == 0:
            count[0] = min(np.int64(lanes), total - begun)
            enter(checks, rules, state, shots, U(begun), U(count[0]), lane_tag)
            for lane in range(count[0]):
                who[block, lane] = begun + lane
            begun += count[0]
        held = min(count[level], np.int64(lanes))
        active = np.uint32(0xFFFFFFFF) >> np.uint32(32 - held)
        last = level + 1 == depth
        for sweep in range(levels[level], levels[level + 1]):
            sweep_once(checks, rules, state, work, tape, sweep, layered, lane_tag, rule)
            done += 1
            if stops or sweep + 1 == levels[depth]:
                hard_decisions(checks, state, words, lane_tag)
                wrong = unexplained(checks, state, words)
                ends = active if sweep + 1 == levels[depth] else active & ~wrong
                if ends != 0:
                    for lane in range(held):
                        if (ends >> np.uint32(lane)) & np.uint32(1):
                            fine = ((wrong >> np.uint32(lane)) & np.uint32(1)) == 0
                            leave(
                                checks, state, words, U(lane), who[block, lane], found, sweep + 1, fine, lane_tag
                            )  # fmt: skip
                active &= ~ends
            if active == 0:
                break
        moved = 0
        for lane in range(held):
            if (active >> np.uint32(lane)) & np.uint32(1) and not last:
                if count[level + 1] + moved == np.int64(lanes):
                    beneath = state_at(states, U(2 * level + 2 + front[level + 1]), checks, lanes)
                    move(checks, rules, state, beneath, pairs, U(moved), lane_tag)
                    count[level + 1] += moved
                    moved = 0
                there = count[level + 1] + moved
                target = 2 * level + 2 + (front[level + 1] if there < np.int64(lanes) else 1 - front[level + 1])
                spot = there if there < np.int64(lanes) else there - np.int64(lanes)
                pairs[0, moved], pairs[1, moved] = U(lane), U(spot)
                who[target, spot] = who[block, lane]
                moved += 1
        if moved > 0:
            there = count[level + 1]
            target = 2 * level + 2 + (front[level + 1] if there < np.int64(lanes) else 1 - front[level + 1])
            move(checks, rules, state, state_at(states, U(target), checks, lanes), pairs, U(moved), lane_tag)
            count[level + 1] += moved
        count[level] -= held
        if count[level] > 0:
            front[level] = 1 - front[level]
