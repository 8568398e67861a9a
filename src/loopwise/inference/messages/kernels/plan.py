"""The tables that kernels share: where things stand, the numbers, the messages, working space.

In: nothing. Out: named tuples of flat arrays; the engine fills them, kernels read them.

A *block* is LANES examples side by side, or one example whose factors stand side by side (then a *member* is a run of
LANES factors), or one example alone (lane tag ``()``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.barrier import meet
from loopwise.compiled.decorators import fused_callee, fused_inlined

# Columns of Plan.groups, a row a factor group.
ARITY, MEMBERS, K0, K1, WIDTH, CELLS = U(0), U(1), U(2), U(3), U(4), U(5)
SLOT_START = U(6)  # first slot of the group within a block
TABLE_START = U(7)  # where the group's tables begin in theta
TABLE_BLOCK = U(8)  # how far apart two blocks' tables are: 0 when all examples share them
SHARED = U(9)  # 1: a table has no lanes, all lanes read the same
CELL_SLOTS = U(10)  # where the group's cell-to-slot map begins
SHAPE = U(11)  # where the group's shape begins
COLUMNS = 12


class Plan(NamedTuple):
    """Integers: where everything stands. The same for all blocks."""

    groups: Any  # [groups, COLUMNS]
    state_start: Any  # [variables + 1]
    edge_start: Any  # [variables + 1], into edge_base
    edge_base: Any  # [edges] where the message of each variable's edge stands within a block
    edge_group: Any  # [edges] the row of groups, the member and the position of each such edge
    edge_member: Any
    edge_position: Any
    exponents: Any  # [edges] the power of each such message (counting numbers)
    cell_slots: Any
    shapes: Any
    slots: Any  # slots of a block
    unary_block: Any  # how far apart two blocks' unary potentials are: 0 when all examples share them


class Potentials(NamedTuple):
    """Potentials: exponentiated and scaled in the probability domain, plain in the log domain."""

    theta: Any
    unary: Any


class Messages(NamedTuple):
    """Messages to variables, messages to factors, variable beliefs."""

    m: Any
    n: Any
    beliefs: Any


class Steps(NamedTuple):
    """What a run keeps of its steps. A step is a flooding sweep, or half a sequential one; step 0 is the start.

    Messages to factors after step s of block b stand in ``Messages.n`` from ``b * n_block + s * n_step`` on; with
    ``n_step`` 0 each step overwrites the one before. Messages to variables after step s = k * every are copied to
    ``m`` from ``b * m_block + k * m_step`` on (``every`` 0: never).
    """

    n_block: Any
    n_step: Any
    m: Any
    m_block: Any
    m_step: Any
    every: Any


class Run(NamedTuple):
    """The arrays of one call of a kernel."""

    plan: Any
    potentials: Any
    messages: Any
    tape: Any  # Steps
    rule: Any  # StopRule
    damping: Any
    examples: Any


class Block(NamedTuple):
    """Where a block stands in the arrays of a run."""

    block: Any
    m: Any
    n: Any
    unary: Any
    beliefs: Any


class Span(NamedTuple):
    """Variables, or places, ``first`` to ``last``."""

    first: Any
    last: Any


class Factors(NamedTuple):
    """Factors ``first`` to ``last`` of group ``g`` in a block."""

    g: Any
    block: Any
    first: Any
    last: Any


class Factor(NamedTuple):
    """Factor ``member`` of group ``g`` in a block, and its variables ``first`` to ``last``."""

    g: Any
    block: Any
    member: Any
    first: Any
    last: Any


class Flood(NamedTuple):
    """The flooding schedule."""


class PairFlood(NamedTuple):
    """The same where messages go as vectors (:mod:`loopwise.inference.messages.kernels.pair_floods`)."""

    transposed: Any  # the tables of all factors in a row, transposed


class Order(NamedTuple):
    """The sequential schedule, forth (0) and back (1): rows, not fields, so that one call serves both. Marks of the
    messages that a visit pulls are in the plan's per-variable order; the last row (2) has none, for a visit that only
    sends."""

    way: Any  # [2, variables]
    pull: Any  # bool [3, edges]


class PairOrder(NamedTuple):
    """The same where messages go as vectors (:mod:`loopwise.inference.messages.kernels.pair_visits`), and what visits
    pull stands in the order in which they do, forth and then back."""

    way: Any
    pull: Any
    starts: Any  # [3, variables + 1] where the pulls of each visit begin; the last row has none
    edges: Any  # [pulls] in the plan's per-variable order
    source: Any  # and where the message to the factor stands that it is made of
    tables: Any  # of the block at hand, as ``tell_tables`` writes them


class Cuts(NamedTuple):
    """Where each part begins. A plan that is cut into parts counts groups, states and messages from there;
    ``state_start`` and ``edge_start`` have an entry more for each part."""

    groups: Any  # how many each part has
    variable: Any  # [parts + 1]
    state: Any  # [parts + 1]
    message: Any  # [parts + 1]


class PartRules(NamedTuple):
    """In what the rules differ by which parts stop."""

    iterations: Any  # [parts] sweeps at most
    reach: Any  # [parts]


class Ends(NamedTuple):
    """What is known of each example when it stopped."""

    messages: Any  # final ones, apart from those of the run where examples of a block stop one by one
    apart: Any  # whether any of these is not that of the run
    sweeps: Any  # [examples], padded
    residual: Any
    lowest: Any  # the smallest normaliser
    trace: Any  # empty, or as many arrays like beliefs as there are sweeps after the first visit
    moved: Any  # [sweeps, examples] the largest changes of these beliefs


class Scratch(NamedTuple):
    """Working space of one thread, and what it noticed: largest belief change, smallest normaliser, a lane each."""

    fresh: Any
    partial: Any
    total: Any
    suffix: Any
    spent: Any  # what rescaling took out of a product so far, a lane each
    change: Any
    lowest: Any


class Adjoint(NamedTuple):
    """Adjoints of the logarithms of everything in Messages and Potentials, of one block.

    Those of messages sum to zero over the values of a variable (ERMA spec, section 4.3), so that normalising a message
    needs no undoing.
    """

    m: Any  # [slots, lane]
    n: Any
    now: Any  # messages to factors as they stood when the visit being undone began (sequential schedule)
    theta: Any  # laid out [member, cell, lane], groups one after another
    theta_start: Any  # [groups, 2] where a group begins, and how far apart two blocks are (0: they share one)
    unary: Any
    unary_block: Any
    damping: Any  # [1]
    exponents: Any  # [edges] in the order of Plan.exponents, or empty if nobody asks


class Seeds(NamedTuple):
    """What a loss says about the last step of a run: adjoints of the logarithms of beliefs and messages."""

    unary: Any  # [block, states, lane]
    m: Any  # [block, slots, lane]
    n: Any
    trace: Any  # as unary, for every sweep, [block, sweep, states, lane]; empty if nobody asks
    last: Any  # [examples] the sweep each example stopped at


class Tangent(NamedTuple):
    """By how much the logarithms of everything move in one direction, for one block; and where the results go."""

    m: Any  # [slots, lane] messages to variables, now
    n: Any  # [step, slots, lane] messages to factors after every step
    now: Any  # messages to factors themselves, as the visit being made finds them (sequential schedule)
    theta: Any  # laid out like Potentials
    unary: Any
    last_unary: Any  # as in Seeds: beliefs and messages where each example stopped, and beliefs after every sweep
    last_m: Any
    last_n: Any
    trace: Any


class Linearised(NamedTuple):
    """The run whose steps are undone or linearised: what stays the same for all its blocks."""

    plan: Any
    theta: Any
    examples: Any
    kept: Any  # what damping keeps of a message
    seeds: Any  # what the loss says, and the sweep each example stopped at


class Share(NamedTuple):
    """Share ``part`` of ``parts`` of the work on one block; the threads of all shares meet at ``barrier``."""

    block: Any
    part: Any
    parts: Any
    barrier: Any


class TapeSegment(NamedTuple):
    """Steps ``high`` to ``low`` + 1 of a run, and where their tape stands."""

    high: Any
    low: Any
    n: Any
    n_base: Any
    tape: Any  # Steps
    m_base: Any


class Static(NamedTuple):
    """What the compiler knows of a run: how long a tuple is, and whether anything is there. A branch on an *argument*
    that is None is not even compiled: so ``general`` and ``sharing`` are handed on beside it where that matters."""

    literal: Any  # as long as the size of the pair factors with a kernel of their own
    general: Any  # None: there are no other factors
    sharing: Any  # None: every lane has tables of its own
    uniform: Any  # as long as the cardinality that all variables share, or None
    single: Any  # not None: one example, probabilities, no damping, only pair factors of the literal size
    lanes: Any  # the lane tag of factors
    variable_lanes: Any  # and of variables
    power: Any
    semiring: Any


def type_of(static: Any, name: str) -> Any:
    """The type of one field of the type of :class:`Static`, where kernels are chosen by type."""
    return static.types[static.fields.index(name)]


class UndoScratch(NamedTuple):
    """Working space to undo a step: rates of a factor, products of a cell, sums of a variable; and room for the
    tangents of the first two."""

    rates: Any
    partial: Any
    total: Any
    moves: Any
    partial_moves: Any


@fused_callee
def largest_sizes(plan):
    """The slots and the arity of the largest factors, and the values of the largest variable."""
    width, arity, states = U(1), U(1), U(1)
    for g in range(plan.groups.shape[0]):
        width = max(width, plan.groups[g, WIDTH])
        arity = max(arity, plan.groups[g, ARITY])
    for variable in range(plan.state_start.shape[0] - 1):
        states = max(states, U(plan.state_start[variable + 1] - plan.state_start[variable]))
    return int(width), int(arity), int(states)


@fused_callee
def new_scratch(plan, like, lane_tag):
    """Working space large enough for every factor and variable of ``plan``."""
    lanes = np.int64(lanes_of(lane_tag))
    width, arity, states = largest_sizes(plan)
    return Scratch(
        np.empty(width * lanes, dtype=like.dtype),
        np.empty((arity + 2) * lanes, dtype=like.dtype),
        np.empty(states * lanes, dtype=like.dtype),
        np.empty(states * lanes, dtype=like.dtype),
        np.ones(lanes, dtype=like.dtype),
        np.zeros(lanes, dtype=like.dtype),
        np.full(lanes, np.inf, dtype=like.dtype),
    )


@fused_callee
def new_undo_scratch(plan, like, lane_tag):
    """The same to undo a step."""
    lanes = np.int64(lanes_of(lane_tag))
    width, arity, states = largest_sizes(plan)
    return UndoScratch(
        np.empty(width * lanes, dtype=like.dtype),
        np.empty((arity + 1) * lanes, dtype=like.dtype),
        np.empty(states * lanes, dtype=like.dtype),
        np.empty(width * lanes, dtype=like.dtype),
        np.empty((arity + 1) * lanes, dtype=like.dtype),
    )


@fused_inlined
def of_share(count, share):
    """The variables, factors or places of a thread, of so many in all."""
    return Span(U(count) * share.part // share.parts, U(count) * (share.part + U(1)) // share.parts)


@fused_inlined
def told_by(plan, at, block):
    """The factor of an edge, with that edge alone."""
    position = U(plan.edge_position[at])
    return Factor(U(plan.edge_group[at]), block, U(plan.edge_member[at]), position, position + U(1))


@fused_inlined
def wait(share):
    """Returns when the threads of all shares have called it."""
    meet(share.barrier, np.int64(share.parts))
