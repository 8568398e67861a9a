"""Compiled passes over a junction tree: collect, distribute, factor marginals, tangents.

In: log tables as one flat array and the :class:`Ports` of a junction tree. Out: separator messages,
marginals, their tangents. Stage: below inference.

Clique tables are never stored, only separators. Everything is in the log domain: inputs are added, so nothing
underflows, and each separator cell has its own shift before exponentials are taken (one a cell, written as a
polynomial so that it vectorises).
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arrays import copy_into, fill, largest, total
from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.elementary import exp_all
from loopwise.inference.exact.kernels.blocks import (
    FAST,
    advance,
    prepare,
    read,
    read_fixed,
    read_mixed,
    read_outer,
    tally,
    workspace,
    write,
    write_block,
    write_whole,
)


@callee(fastmath=FAST)
def _row_tops(cells, tops, kept, gone, wide):
    """Largest cell for each separator cell of the block, and of ``tops`` before."""
    if wide:
        for row in range(gone):
            part = cells[row * kept : (row + 1) * kept]
            for index in range(kept):
                tops[index] = max(tops[index], part[index])
    else:
        for index in range(kept):
            top = tops[index]
            for value in cells[index * gone : (index + 1) * gone]:
                top = max(top, value)
            tops[index] = top


@callee(fastmath=FAST)
def _row_sums(cells, work, tops, sums, kept, gone, wide):
    """Adds exp(cell - top) for each separator cell of the block."""
    if wide:
        for row in range(gone):
            part = cells[row * kept : (row + 1) * kept]
            for index in range(kept):
                part[index] -= tops[index]
    else:
        for index in range(kept):
            top = tops[index]
            part = cells[index * gone : (index + 1) * gone]
            for inner in range(gone):
                part[inner] -= top
    exp_all(cells[: kept * gone])
    if wide:
        for row in range(gone):
            part = cells[row * kept : (row + 1) * kept]
            for index in range(kept):
                sums[index] += part[index]
    else:
        for index in range(kept):
            total = 0.0
            for value in cells[index * gone : (index + 1) * gone]:
                total += value
            sums[index] += total


@callee
def _collect_clique(ports, work, clique, theta, up, maximise):
    """Message of one clique to its parent, not yet shifted."""
    first = ports.port_start[clique]
    last = ports.port_start[clique + 1] - ports.eliminated[clique] - 1  # neither its own separator nor variables
    factors = first + ports.factors[clique]
    _, rest, kept, gone, outer_kept, outer_gone, wide = prepare(ports, work, clique, first, last)
    block, cells = kept * gone, work.cells
    tops, sums, older = work.tops, work.sums, work.tangents
    target = ports.separator_start[clique]
    fill(work.fixed[:block], 0.0)
    read_fixed(theta, work, first, first, factors, block)
    read_fixed(up, work, first, factors, last, block)
    for _ in range(outer_kept):
        fill(tops[:kept], -np.inf)
        fill(sums[:kept], 0.0)
        for repeat in range(outer_gone):
            level = read_outer(theta, work, first, first, factors) + read_outer(up, work, first, factors, last)
            for index in range(block):
                cells[index] = work.fixed[index] + level
            read_mixed(cells, theta, work, first, first, factors, block)
            read_mixed(cells, up, work, first, factors, last, block)
            if repeat and not maximise:
                copy_into(older, tops[:kept])
            _row_tops(cells, tops, kept, gone, wide)
            if not maximise:
                for index in range(kept):
                    if tops[index] == -np.inf:
                        tops[index] = -1e300  # -inf - (-inf) is not a number
                if repeat:
                    for index in range(kept):
                        sums[index] *= np.exp(older[index] - tops[index])
                _row_sums(cells, work, tops, sums, kept, gone, wide)
            advance(ports, work, clique, first, last, rest)
        if maximise:
            copy_into(up[target:], tops[:kept])
        else:
            for index in range(kept):
                up[target + index] = tops[index] + np.log(sums[index]) if sums[index] > 0 else -np.inf
        target += kept


@callee
def _collect_example(ports, work, theta, up, shift, maximise):
    r"""Messages towards the roots; returns the log-partition function (or the largest log score).

    :math:`m_c(s) = \log \sum_{x_c \setminus s} \exp(\sum_f \theta_f + \sum_d m_d)`, shifted to a maximum of 0
    with the shift kept. Returns -inf as soon as a clique has no possible cell."""
    total = correction = 0.0  # Kahan's sum: 10^5 shifts of 10^4 would lose digits otherwise
    for clique in range(len(ports.eliminated)):
        _collect_clique(ports, work, clique, theta, up, maximise)
        message = up[ports.separator_start[clique] : ports.separator_start[clique + 1]]
        top = largest(message)
        if top == -np.inf:
            return -np.inf
        for cell in range(len(message)):
            message[cell] -= top
        shift[clique] = top
        piece = top - correction
        larger = total + piece
        correction = (larger - total) - piece
        total = larger
    return total


@callee
def _begin_belief(work, block, first, factors, own, theta, up, down, shift):
    fill(work.fixed[:block], -shift)
    fill(work.whole[:block], 0.0)
    read_fixed(theta, work, first, first, factors, block)
    read_fixed(up, work, first, factors, own, block)
    read_fixed(down, work, first, own, own + 1, block)


@callee
def _belief(work, cells, block, first, factors, own, theta, up, down):
    """Marginal probabilities of one block of a clique's cells."""
    level = read_outer(theta, work, first, first, factors) + read_outer(up, work, first, factors, own)
    level += read_outer(down, work, first, own, own + 1)
    for index in range(block):
        cells[index] = work.fixed[index] + level
    read_mixed(cells, theta, work, first, first, factors, block)
    read_mixed(cells, up, work, first, factors, own, block)
    read_mixed(cells, down, work, first, own, own + 1, block)
    exp_all(cells[:block])


@callee
def _outgoing(up, down):
    """Turns separator marginals into messages away from the root: log marginal less what came up."""
    total = 0.0
    for value in down:
        total += value
    for cell in range(len(down)):
        # 0 / 0 = 0: a separator cell without probability stays without.
        down[cell] = np.log(down[cell] / total) - up[cell] if down[cell] > 0 else -np.inf


@callee
def _distribute_example(ports, work, theta, up, shift, down, states):
    """Messages away from the roots (Jensen, Lauritzen and Olesen 1990) and the marginals of all variables."""
    fill(down, 0.0)
    fill(states, 0.0)
    for clique in range(len(ports.eliminated) - 1, -1, -1):
        first, last = ports.port_start[clique], ports.port_start[clique + 1]
        factors, own = first + ports.factors[clique], last - ports.eliminated[clique] - 1
        _, rest, kept, gone, outer_kept, outer_gone, _ = prepare(ports, work, clique, first, last)
        block = kept * gone
        _begin_belief(work, block, first, factors, own, theta, up, down, shift[clique])
        for _ in range(outer_kept * outer_gone):
            _belief(work, work.cells, block, first, factors, own, theta, up, down)
            mass = tally(work.cells, work, block)
            write_block(work.cells, down, mass, work, first, factors, own, block)
            write_block(work.cells, states, mass, work, first, own + 1, last, block)
            advance(ports, work, clique, first, last, rest)
        write_whole(down, work, first, factors, own, block)
        write_whole(states, work, first, own + 1, last, block)
        for port in range(factors, own):
            begin, end = (
                ports.separator_start[ports.child[port]],
                ports.separator_start[ports.child[port] + 1],
            )
            _outgoing(up[begin:end], down[begin:end])
        for axis in range(ports.eliminated[clique]):
            begin = ports.offset[own + 1 + axis]
            marginal = states[begin : begin + ports.size[ports.clique_start[clique] + axis]]
            mass = total(marginal)
            for value in range(len(marginal)):
                marginal[value] /= mass


@callee
def _factor_marginals_example(ports, work, theta, up, shift, down, marginals):
    """Marginals of all factors, laid out like ``theta``, from both kinds of messages."""
    fill(marginals, 0.0)
    for clique in range(len(ports.eliminated)):
        first, last = ports.port_start[clique], ports.port_start[clique + 1] - ports.eliminated[clique]
        factors, own = first + ports.factors[clique], last - 1
        if factors == first:
            continue
        _, rest, kept, gone, outer_kept, outer_gone, _ = prepare(ports, work, clique, first, last)
        block = kept * gone
        _begin_belief(work, block, first, factors, own, theta, up, down, shift[clique])
        for _ in range(outer_kept * outer_gone):
            _belief(work, work.cells, block, first, factors, own, theta, up, down)
            total = tally(work.cells, work, block)
            write_block(work.cells, marginals, total, work, first, first, factors, block)
            advance(ports, work, clique, first, last, rest)
        write_whole(marginals, work, first, first, factors, block)


@callee
def _tangent_example(ports, work, theta, up, shift, down, seed_theta, seed_states, out):
    r"""Change of the factor marginals as ``theta`` moves along ``seed_theta`` and unary terms along
    ``seed_states``.

    Dual numbers through both passes: with conditional expectations, :math:`\dot m_c(s) = E[\sum_f
    \dot\theta_f + \sum_d \dot m_d \mid s]`. By symmetry of the covariance this is also the product of the
    marginals' Jacobian with adjoints."""
    rising, falling, opposite = np.zeros(len(up)), np.zeros(len(up)), np.zeros(len(up))
    for cell in range(len(up)):
        if up[cell] > -np.inf:
            opposite[cell] = -up[cell]
    fill(out, 0.0)
    cells, tangents = work.cells, work.tangents
    for sweep in range(2):
        for number in range(len(ports.eliminated)):
            clique = number if sweep == 0 else len(ports.eliminated) - 1 - number
            first, last = ports.port_start[clique], ports.port_start[clique + 1]
            factors, own = first + ports.factors[clique], last - ports.eliminated[clique] - 1
            _, rest, kept, gone, outer_kept, outer_gone, _ = prepare(ports, work, clique, first, last)
            block = kept * gone
            given = opposite if sweep == 0 else down
            _begin_belief(work, block, first, factors, own, theta, up, given, shift[clique])
            for _ in range(outer_kept * outer_gone):
                _belief(work, cells, block, first, factors, own, theta, up, given)
                fill(tangents[:block], 0.0)
                for port in range(first, factors):
                    read(tangents, seed_theta, work, port - first, block)
                for port in range(factors, own):
                    read(tangents, rising, work, port - first, block)
                for port in range(own + 1, last):
                    read(tangents, seed_states, work, port - first, block)
                if sweep:
                    read(tangents, falling, work, own - first, block)
                for index in range(block):
                    tangents[index] *= cells[index]
                if sweep == 0:
                    write(tangents, rising, work, own - first, block)
                else:
                    for port in range(first, factors):
                        write(tangents, out, work, port - first, block)
                    for port in range(factors, own):
                        write(tangents, falling, work, port - first, block)
                advance(ports, work, clique, first, last, rest)
            if sweep:
                for port in range(factors, own):
                    other = ports.child[port]
                    for cell in range(ports.separator_start[other], ports.separator_start[other + 1]):
                        marginal = np.exp(up[cell] + down[cell])
                        falling[cell] = falling[cell] / marginal - rising[cell] if marginal > 0 else 0.0
            elif ports.clique_start[clique + 1] - ports.clique_start[clique] == ports.eliminated[clique]:
                # A root: its belief is the product of its tables over their sum, whose change is the mean
                # just found.
                falling[ports.separator_start[clique]] = -rising[ports.separator_start[clique]]


# What the stages call: all examples, one after another, on one workspace. Arrays have the examples in front.


@kernel
def collect(ports, sizes, theta, up, shift, maximise, log_partition):
    """Messages towards the roots and log-partition functions ``[examples]``; -inf: nothing is possible."""
    work = workspace(sizes)
    for example in range(len(theta)):
        log_partition[example] = _collect_example(ports, work, theta[example], up[example], shift[example], maximise)


@kernel
def distribute(ports, sizes, theta, up, shift, down, states):
    """Messages away from the roots, and the marginals of all variables ``[examples, states]``."""
    work = workspace(sizes)
    for example in range(len(theta)):
        _distribute_example(ports, work, theta[example], up[example], shift[example], down[example], states[example])


@kernel
def factor_marginals(ports, sizes, theta, up, shift, down, marginals):
    """Marginals of all factors, laid out like ``theta``."""
    work = workspace(sizes)
    for example in range(len(theta)):
        _factor_marginals_example(
            ports, work, theta[example], up[example], shift[example], down[example], marginals[example]
        )


@kernel
def tangent(ports, sizes, theta, up, shift, down, seed_theta, seed_states, out):
    """Covariances of the factors' indicators with a direction, laid out like ``theta``."""
    work = workspace(sizes)
    for example in range(len(theta)):
        _tangent_example(
            ports, work, theta[example], up[example], shift[example], down[example], seed_theta[example],
            seed_states[example], out[example],
        )  # fmt: skip
