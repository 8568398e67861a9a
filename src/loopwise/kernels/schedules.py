"""The flooding and the sequential schedule, from initial to final messages.

In: potentials and initial messages. Out: final messages, variable beliefs, and per example the sweeps, the last
change and the smallest normaliser (below a floor: the run lost digits to underflow).

A flooding sweep renews all messages to variables, then all messages to factors; a sequential sweep visits the
variables in order and back. Either way messages to factors are up to date with messages to variables at the end.
Kernels are kept shallow: the compiler optimises a callee again in each of its callers.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from loopwise.kernels.arithmetic import FAST, U, lanes_of
from loopwise.kernels.factors import factor_step
from loopwise.kernels.plan import new_scratch
from loopwise.kernels.variables import visit_variables


@njit(nogil=True, cache=True, fastmath=FAST, parallel=True)
def flood_graph(plan, numbers, flow, iterations, tolerance, damping, chunks, literal, general, laned, power, semiring):
    """One example, its factors in lanes; the work of each half-sweep is shared out among ``chunks`` threads."""
    variables = plan.state_start.shape[0] - 1
    change = np.zeros(chunks, dtype=flow.m.dtype)
    lowest = np.full(chunks, np.inf, dtype=flow.m.dtype)
    sweeps = 0
    for sweep in range(iterations + 1):
        if sweep > 0:
            for c in prange(chunks):
                scratch = new_scratch(plan, flow.m, laned)
                factor_step(
                    plan, U(0), U(c), U(chunks), numbers.theta, flow, U(0), damping, scratch, literal, general, None,
                    laned, semiring,
                )  # fmt: skip
                lowest[c] = min(lowest[c], scratch.lowest.min())
        # Without a tolerance only the last two beliefs are needed, for an honest residual.
        watch = tolerance > 0 or sweep >= iterations - 1
        for c in prange(chunks):
            scratch = new_scratch(plan, flow.m, ())
            visit_variables(
                U(variables * c // chunks), U(variables * (c + 1) // chunks), None, None, plan, U(0), numbers.theta,
                numbers.unary, U(0), flow, U(0), U(0), watch, damping, scratch, literal, None, None, laned, (), power,
                semiring,
            )  # fmt: skip
            change[c] = scratch.change[0]
            lowest[c] = min(lowest[c], scratch.lowest[0])
        sweeps = sweep
        if sweep > 0 and tolerance > 0 and change.max() < tolerance:
            break
    return sweeps, change.max(), lowest.min()


@njit(nogil=True, cache=True)
def retire(flow, done, base, belief_base, slots, states, lane, lanes):
    """Copies one finished example out of its block, so that its neighbours can go on without changing it."""
    for slot in range(slots):
        place = base + slot * lanes + lane
        done.m[place] = flow.m[place]
        done.n[place] = flow.n[place]
    for state in range(states):
        place = belief_base + state * lanes + lane
        done.beliefs[place] = flow.beliefs[place]


@njit(nogil=True, cache=True, fastmath=FAST)
def _run_block(
    plan, order, numbers, flow, done, block, real, iterations, tolerance, damping, sweeps, residual, lowest,
    literal, general, sharing, lane_tag, power, semiring,
):  # fmt: skip
    """The examples of one block side by side; each stops by itself. ``order`` None: flooding, else sequential."""
    lanes = lanes_of(lane_tag)
    slots, states = U(plan.slots), U(plan.state_start[-1])
    variables = U(plan.state_start.shape[0] - 1)
    base, belief_base, unary_base = block * slots * lanes, block * states * lanes, block * U(plan.unary_block)
    scratch = new_scratch(plan, flow.m, lane_tag)
    running = np.arange(np.int64(lanes)) < real
    for sweep in range(iterations + 1):
        watch = tolerance > 0 or sweep >= iterations - 1
        scratch.change[:] = 0
        if order is not None and sweep > 0:
            visit_variables(
                U(0), variables, order.forward, order.pull_forward, plan, block, numbers.theta, numbers.unary, unary_base,
                flow, base, belief_base, False, damping, scratch, literal, general, sharing, lane_tag, lane_tag, power,
                semiring,
            )  # fmt: skip
            visit_variables(
                U(0), variables, order.backward, order.pull_backward, plan, block, numbers.theta, numbers.unary,
                unary_base, flow, base, belief_base, watch, damping, scratch, literal, general, sharing, lane_tag,
                lane_tag, power, semiring,
            )  # fmt: skip
        else:
            if order is None and sweep > 0:
                factor_step(
                    plan, block, U(0), U(1), numbers.theta, flow, base, damping, scratch, literal, general, sharing,
                    lane_tag, semiring,
                )  # fmt: skip
            visit_variables(
                U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base,
                belief_base, watch, damping, scratch, literal, None, None, lane_tag, lane_tag, power, semiring,
            )  # fmt: skip
        for lane in range(lanes):
            if not running[lane]:
                continue
            sweeps[lane] = sweep
            residual[lane] = scratch.change[lane]
            lowest[lane] = scratch.lowest[lane]
            if sweep == iterations or (sweep > 0 and tolerance > 0 and scratch.change[lane] < tolerance):
                running[lane] = False
                retire(flow, done, base, belief_base, slots, states, lane, lanes)
        if not running.any():
            break


@njit(nogil=True, cache=True, fastmath=FAST, parallel=True)
def run_batch(
    plan, order, numbers, flow, done, examples, iterations, tolerance, damping, chunks, sweeps, residual, lowest,
    literal, general, sharing, lane_tag, power, semiring,
):  # fmt: skip
    """Many examples on one graph, as many in a block as the lane tag says, blocks shared out among threads."""
    lanes = np.int64(lanes_of(lane_tag))
    blocks = (examples + lanes - 1) // lanes
    for c in prange(chunks):
        for block in range(blocks * c // chunks, blocks * (c + 1) // chunks):
            begin, end = block * lanes, (block + 1) * lanes
            _run_block(
                plan, order, numbers, flow, done, U(block), examples - begin, iterations, tolerance, damping,
                sweeps[begin:end], residual[begin:end], lowest[begin:end], literal, general, sharing, lane_tag, power,
                semiring,
            )  # fmt: skip
