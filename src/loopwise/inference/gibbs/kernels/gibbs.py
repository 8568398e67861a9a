"""Compiled single-site Gibbs sampling.

In: a factor graph as flat arrays (:class:`FactorArrays`, or :class:`BinaryArrays` where all factors join two
binary variables). Out: samples, counts and sums of conditional probabilities, chain by chain. Below the
stages.

Every chain owns a random stream seeded by (seed, chain), so a result does not depend on how chains share
threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel

LANES = 16  # chains that one block advances together: the default number of chains, and four AVX2 registers

# Nats that a walk outside the support pays for each violated factor: it mostly takes the value that violates
# fewest, but one step in twenty goes uphill, for without these it could not leave a local minimum.
ESCAPE = 3.0

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE_EXPONENT = np.uint64(0x3FF0000000000000)  # bits of 1.0: with 52 random bits below, a double in [1, 2)


class FactorArrays(NamedTuple):
    """Factors of arity 2 and more with their log tables; ``table_step`` is 0 where examples share one."""

    unary: np.ndarray  # float64 [examples or 1, states]
    tables: np.ndarray  # float64 [cells of all tables]
    table_start: np.ndarray  # [factors]
    table_step: np.ndarray  # [factors]: cells from one example's table to the next example's
    factor_edge_start: np.ndarray  # [factors + 1]
    edge_variable: np.ndarray  # [edges]
    edge_factor: np.ndarray  # [edges]
    edge_stride: np.ndarray  # [edges]: cells from one value to the next along the edge's table axis
    variable_edge_start: np.ndarray  # [variables + 1]
    variable_edges: np.ndarray  # [edges]
    state_start: np.ndarray  # [variables + 1]


class BinaryArrays(NamedTuple):
    """A binary pairwise model by its log odds: ``bias_v + sum_u coupling_vu x_u`` for value 1 of v."""

    bias: np.ndarray  # float64 [examples or 1, variables]
    coupling: np.ndarray  # float64 [examples or 1, edges], in the order of variable_edges
    neighbour: np.ndarray  # int64 [edges], the other variable
    neighbour_start: np.ndarray  # int64 [variables + 1]


class SampleSchedule(NamedTuple):
    """Sweeps thrown away, sweeps before the first kept sample, samples kept, sweeps between two of them."""

    burn_in: int
    first_gap: int
    samples: int
    thinning: int


@callee
def _mixed(word):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


@kernel
def seed_stream(generator, seed, stream):
    """Fills ``generator`` (uint64 [4]) for stream number ``stream`` of ``seed``."""
    state = _mixed(_mixed(np.uint64(seed) + _GOLDEN) + np.uint64(stream) * _GOLDEN)
    for word in range(4):
        state += _GOLDEN
        generator[word] = _mixed(state)


@kernel
def next_uniform(generator):
    """Next number in [0, 1) of xoshiro256+ (Blackman and Vigna 2021)."""
    word = generator[0] + generator[3]
    shifted = generator[1] << np.uint64(17)
    generator[2] ^= generator[0]
    generator[3] ^= generator[1]
    generator[1] ^= generator[2]
    generator[0] ^= generator[3]
    generator[2] ^= shifted
    generator[3] = (generator[3] << np.uint64(45)) | (generator[3] >> np.uint64(19))
    return np.float64(word >> np.uint64(12)) * 2.0**-52


# ------------------------------------------------------------------------------------------- any factor graph


@kernel
def random_start(arrays, example, values, generator):
    """Each variable uniform over the values that its unary potentials allow."""
    unary = arrays.unary[example if arrays.unary.shape[0] > 1 else 0]
    for variable in range(values.shape[0]):
        first, end = arrays.state_start[variable], arrays.state_start[variable + 1]
        allowed = 0
        for state in range(first, end):
            if unary[state] > -np.inf:
                allowed += 1
        wanted = np.int64(next_uniform(generator) * allowed)
        for state in range(first, end):
            if unary[state] > -np.inf:
                if wanted == 0:
                    values[variable] = state - first
                    break
                wanted -= 1


@callee
def in_support(arrays, example, values):
    """Whether no factor of arity 2 or more forbids ``values`` (unary potentials never do)."""
    for factor in range(arrays.table_start.shape[0]):
        cell = arrays.table_start[factor] + example * arrays.table_step[factor]
        for edge in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
            cell += arrays.edge_stride[edge] * values[arrays.edge_variable[edge]]
        if arrays.tables[cell] == -np.inf:
            return False
    return True


@callee
def first_cell(arrays, example, edge, values):
    """Cell of the edge's factor where the edge's variable has value 0 and the others have theirs."""
    factor = arrays.edge_factor[edge]
    cell = arrays.table_start[factor] + example * arrays.table_step[factor]
    first, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
    if end - first == 2:
        other = first + end - 1 - edge
        return cell + arrays.edge_stride[other] * values[arrays.edge_variable[other]]
    for other in range(first, end):
        if other != edge:
            cell += arrays.edge_stride[other] * values[arrays.edge_variable[other]]
    return cell


@callee
def score_values(arrays, example, variable, values, scores):
    """Log-score of each value given the rest; the highest of them."""
    start = arrays.state_start[variable]
    size = arrays.state_start[variable + 1] - start
    row = example if arrays.unary.shape[0] > 1 else 0
    for value in range(size):
        scores[value] = arrays.unary[row, start + value]
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        cell = first_cell(arrays, example, edge, values)
        stride = arrays.edge_stride[edge]
        for value in range(size):
            scores[value] += arrays.tables[cell + value * stride]
    top = -np.inf
    for value in range(size):
        top = max(top, scores[value])
    return top


@callee
def _score_violations(arrays, example, variable, values, scores):
    """Scores for a variable of which factors forbid every value: :data:`ESCAPE` less for each that does."""
    start = arrays.state_start[variable]
    row = example if arrays.unary.shape[0] > 1 else 0
    top = -np.inf
    for value in range(arrays.state_start[variable + 1] - start):
        scores[value] = -np.inf if arrays.unary[row, start + value] == -np.inf else 0.0
        for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
            edge = arrays.variable_edges[place]
            cell = first_cell(arrays, example, edge, values) + value * arrays.edge_stride[edge]
            if arrays.tables[cell] == -np.inf:
                scores[value] -= ESCAPE
        top = max(top, scores[value])
    return top


@callee
def sweep_chain(arrays, example, values, generator, scores, totals, accumulate):
    """Visits every variable once, in order; adds the conditional probabilities to ``totals`` when asked."""
    for variable in range(values.shape[0]):
        start = arrays.state_start[variable]
        size = arrays.state_start[variable + 1] - start
        top = score_values(arrays, example, variable, values, scores)
        if top == -np.inf:
            top = _score_violations(arrays, example, variable, values, scores)
        total = 0.0
        for value in range(size):
            scores[value] = np.exp(scores[value] - top)
            total += scores[value]
        left = next_uniform(generator) * total
        chosen = -1
        for value in range(size):
            if scores[value] > 0.0:
                chosen = value  # rounding may leave a rest: the last possible value takes it
                left -= scores[value]
                if left < 0.0:
                    break
        values[variable] = chosen
        if accumulate:
            for value in range(size):
                totals[start + value] += scores[value] / total


@callee
def _gap(schedule, sample):
    """Sweeps before sample number ``sample``; before number -1, burn-in."""
    if sample < 0:
        return schedule.burn_in
    return schedule.thinning if sample else schedule.first_gap


@callee
def _half(sample, samples):
    """0 in the first half of the samples, 1 in the second, -1 for the middle one of an odd number."""
    if sample < samples // 2:
        return 0
    return 1 if sample >= samples - samples // 2 else -1


@callee
def _record(state_start, values, half, sample, samples, counts):
    """Stores one sample of a chain and counts its values; either array may be empty."""
    for variable in range(values.shape[0]):
        if half >= 0 and counts.shape[1]:
            counts[half, state_start[variable] + values[variable]] += 1
        if samples.shape[0]:
            samples[sample, variable] = values[variable]


@callee
def _run_chain(arrays, example, generator, schedule, samples, totals, counts, work):
    """One chain; False if it was outside the support at the end of burn-in."""
    values, scores = work
    random_start(arrays, example, values, generator)
    for sample in range(-1, schedule.samples):
        gap = _gap(schedule, sample)
        for sweep in range(gap):
            accumulate = sample >= 0 and sweep == gap - 1 and totals.shape[0] > 0
            sweep_chain(arrays, example, values, generator, scores, totals, accumulate)
        if sample >= 0:
            half = _half(sample, schedule.samples)
            _record(arrays.state_start, values, half, sample, samples, counts)
        elif not in_support(arrays, example, values):
            return False
    return True


@kernel
def run_chains(arrays, seed, schedule, first, step, possible, samples, totals, counts):
    """Runs chain ``c`` of example ``e``: every ``step``-th of all e, c, beginning with number ``first``.

    Fills ``possible`` bool [examples, chains] (the chain reached the support by the end of burn-in: the
    others record nothing), ``samples`` [examples, chains, samples, variables], ``totals`` [examples, chains,
    states] (sums of conditional probabilities) and ``counts`` [examples, chains, 2, states] (visits in each
    half). Any of the last three is left out where it has no samples or states. Time: sweeps x sum over edges
    of (arity + cardinality).
    """
    variables = arrays.state_start.shape[0] - 1
    largest = 1
    for variable in range(variables):
        largest = max(largest, arrays.state_start[variable + 1] - arrays.state_start[variable])
    work = (np.zeros(variables, dtype=np.int64), np.empty(largest))
    generator = np.empty(4, dtype=np.uint64)
    chains = possible.shape[1]
    for task in range(first, possible.shape[0] * chains, step):
        seed_stream(generator, seed, task)
        example, chain = task // chains, task % chains
        possible[example, chain] = _run_chain(
            arrays,
            example,
            generator,
            schedule,
            samples[example, chain],
            totals[example, chain],
            counts[example, chain],
            work,
        )


# ---------------------------------------------------------------------------------- binary pairwise, 16 lanes


class LaneDraws(NamedTuple):
    """Random numbers of LANES chains, and the odds that they are held against."""

    streams: Any  # uint64 [4, LANES], the states of the generators
    bits: Any  # uint64 [LANES]
    uniform: Any  # the same read as doubles in [1, 2)
    odds: Any  # [LANES]


@callee
def _sweep_block(bias, coupling, wiring, values, draws, totals, accumulate):
    """One sweep of LANES chains; ``values`` is [variables * LANES] of 0.0 and 1.0, lanes innermost."""
    neighbour, start = wiring
    odds, bits, uniform = draws.odds, draws.bits, draws.uniform
    for variable in range(start.shape[0] - 1):
        here = variable * LANES
        for lane in range(LANES):
            odds[lane] = bias[variable]
        for place in range(start[variable], start[variable + 1]):
            weight = coupling[place]
            there = neighbour[place] * LANES
            for lane in range(LANES):
                odds[lane] += weight * values[there + lane]
        _next_bits(draws.streams, bits)
        for lane in range(LANES):
            odds[lane] = 1.0 / (1.0 + np.exp(-odds[lane]))
        for lane in range(LANES):
            values[here + lane] = 1.0 if uniform[lane] - 1.0 < odds[lane] else 0.0
        if accumulate:
            for lane in range(LANES):
                totals[here + lane] += odds[lane]


@kernel
def _next_bits(streams, bits):
    """xoshiro256+ in every lane; read as doubles the ``bits`` are in [1, 2), which saves a conversion."""
    for lane in range(LANES):
        a, b = streams[0, lane], streams[1, lane]
        c, d = streams[2, lane], streams[3, lane]
        bits[lane] = ((a + d) >> np.uint64(12)) | _ONE_EXPONENT
        shifted = b << np.uint64(17)
        c ^= a
        d ^= b
        streams[1, lane] = b ^ c
        streams[0, lane] = a ^ d
        streams[2, lane] = c ^ shifted
        streams[3, lane] = (d << np.uint64(45)) | (d >> np.uint64(19))


@callee
def _start_block(values, streams, seed, first_stream):
    generator = np.empty(4, dtype=np.uint64)
    for lane in range(LANES):
        seed_stream(generator, seed, first_stream + lane)
        for place in range(lane, values.shape[0], LANES):
            values[place] = 1.0 if next_uniform(generator) < 0.5 else 0.0
        for word in range(4):
            streams[word, lane] = generator[word]


@callee
def _run_block(arrays, seed, schedule, example, first_chain, samples, totals, counts, chains):
    variables = arrays.neighbour_start.shape[0] - 1
    bias = arrays.bias[example if arrays.bias.shape[0] > 1 else 0]
    coupling = arrays.coupling[example if arrays.coupling.shape[0] > 1 else 0]
    values, sums = np.empty(variables * LANES), np.zeros(variables * LANES)
    hits = np.zeros((2, variables * LANES))
    streams, bits = np.empty((4, LANES), dtype=np.uint64), np.empty(LANES, dtype=np.uint64)
    draws = LaneDraws(streams, bits, bits.view(np.float64), np.empty(LANES))
    wiring = arrays.neighbour, arrays.neighbour_start
    lanes = min(LANES, chains - first_chain)
    _start_block(values, streams, seed, example * chains + first_chain)
    for sample in range(-1, schedule.samples):
        gap = _gap(schedule, sample)
        for sweep in range(gap):
            accumulate = sample >= 0 and sweep == gap - 1 and totals.shape[2] > 0
            _sweep_block(bias, coupling, wiring, values, draws, sums, accumulate)
        half = _half(sample, schedule.samples)
        if sample >= 0 and half >= 0 and counts.shape[3]:
            for place in range(values.shape[0]):
                hits[half, place] += values[place]
        if sample >= 0 and samples.shape[2]:
            for lane in range(lanes):
                for variable in range(variables):
                    samples[example, first_chain + lane, sample, variable] = values[variable * LANES + lane]
    if totals.shape[2]:
        _spread(schedule, example, first_chain, lanes, sums, hits, totals, counts)


@callee
def _spread(schedule, example, first_chain, lanes, sums, hits, totals, counts):
    """From lanes innermost to one row a chain, value 0 beside value 1."""
    half_size = schedule.samples // 2
    for lane in range(lanes):
        chain = first_chain + lane
        for variable in range(sums.shape[0] // LANES):
            place = variable * LANES + lane
            totals[example, chain, 2 * variable] = schedule.samples - sums[place]
            totals[example, chain, 2 * variable + 1] = sums[place]
            for half in range(2):
                counts[example, chain, half, 2 * variable] = half_size - np.int64(hits[half, place])
                counts[example, chain, half, 2 * variable + 1] = np.int64(hits[half, place])


@kernel
def run_binary_chains(arrays, seed, schedule, first, step, possible, samples, totals, counts):
    """:func:`run_chains` for binary pairwise models without forbidden pairs: no look-up, 16 lanes, every ``step``-th
    block of them."""
    examples, chains = possible.shape
    blocks = (chains + LANES - 1) // LANES
    for task in range(first, examples * blocks, step):
        example, lane = task // blocks, task % blocks * LANES
        possible[example, lane : lane + LANES] = True
        _run_block(arrays, seed, schedule, example, lane, samples, totals, counts, chains)


# --------------------------------------------------------------------------------------------------- counting


@kernel
def count_cells(samples, possible, scopes, strides, first, end, counts):
    """Adds to ``counts`` [examples, factors, cells] the samples of possible chains in each cell of the factors from
    ``first`` to ``end``."""
    for example in range(samples.shape[0]):
        for chain in range(samples.shape[1]):
            if not possible[example, chain]:
                continue
            for sample in range(samples.shape[2]):
                row = samples[example, chain, sample]
                for factor in range(first, end):
                    cell = 0
                    for axis in range(scopes.shape[1]):
                        cell += strides[axis] * row[scopes[factor, axis]]
                    counts[example, factor, cell] += 1.0
