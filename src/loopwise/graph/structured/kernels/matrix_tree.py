"""Trees that need not be projective: log Z, edge marginals, messages, samples, their pull-back; nothing cancels.

In: scores as in ``eisner`` (flat, head x modifier, -inf pruned, +inf required). Out: the same
quantities as there; ``read_columns`` reads both. Below the stages.

The matrix-tree theorem writes Z as a determinant whose entries cancel when scores are peaked. Here tokens are
eliminated one after another without any subtraction (Grassmann, Taksar & Heyman 1985): token k passes its heads on to
its modifiers, w[h,m] += w[k,m] w[h,k] / D_k with D_k = sum_h w[h,k], and Z is the product of all D_k. All of it is
done on logarithms. If m is eliminated last, dZ/dw[h,m] is the product of the other D_k times the chance that the walk
from h to the root, head by head, does not meet m. Eliminating one half of the tokens, then the other, and so on down,
makes every token the last one in O(n^3) overall.

Single root: the limit of vanishing root weights. They are multiplied by exp(-penalty), with a penalty beyond what the
scores could make up for, so that trees of two roots weigh less than rounding.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.eisner import load_weights
from loopwise.graph.structured.kernels.eisner_log import log_add
from loopwise.graph.structured.kernels.tree_columns import column_seeds, given_of, read_columns

SURE = 45.0  # nats by which trees of too many roots are outweighed: below rounding


@callee
def _penalty(weights, n, least):
    """What root edges pay; into ``least[m]`` the smallest log weight into m, so that their sum is the least log weight
    that a tree of one root can have."""
    width, penalty = n + 1, SURE
    for column in range(1, width):
        low, high = np.inf, -np.inf
        for head in range(width):
            value = weights[head * width + column]
            if head != column and value > -np.inf:
                low, high = min(low, value), max(high, value)
        penalty += high - low + np.log(width)
        least[column] = low
    return penalty


@callee
def _eliminate(weights, n, k, alive, records, divisors, tape, taped):
    """Takes token k out of the graph ``weights``; where its heads were goes to row k of ``records``.

    ``tape`` (unless empty) gets, from place ``taped`` on, the share that the way through k has in each weight that it
    changes; the place after the last is returned."""
    width, total = n + 1, -np.inf
    for head in range(width):
        value = weights[head * width + k] if alive[head] and head != k else -np.inf
        records[k * width + head] = value
        total = log_add(total, value)
    divisors[k] = total
    alive[k] = False
    for modifier in range(1, width):
        if not alive[modifier]:
            continue
        through = weights[k * width + modifier] - total if total > -np.inf else -np.inf
        for head in range(width):
            if head == modifier or not alive[head]:
                continue
            at, value, share = head * width + modifier, records[k * width + head] + through, 0.0
            if value > -np.inf:
                weights[at] = log_add(weights[at], value)
                share = np.exp(value - weights[at])
            if tape.shape[0]:
                tape[taped] = share
                taped += 1
    return taped


@callee
def _restore(adjoints, n, k, alive, records, record_adjoints, divisors, divisor_adjoints, tape, taped):
    """:func:`_eliminate` undone for the adjoints of log weights: those after it to those before it."""
    width = n + 1
    for modifier in range(width - 1, 0, -1):
        if not alive[modifier]:
            continue
        for head in range(width - 1, -1, -1):
            if head == modifier or not alive[head]:
                continue
            taped -= 1
            passed = adjoints[head * width + modifier] * tape[taped]
            adjoints[head * width + modifier] -= passed
            adjoints[k * width + modifier] += passed
            record_adjoints[k * width + head] += passed
            divisor_adjoints[k] -= passed
    for head in range(width):
        if records[k * width + head] > -np.inf:
            own = record_adjoints[k * width + head]
            own += divisor_adjoints[k] * np.exp(records[k * width + head] - divisors[k])
            adjoints[head * width + k] += own
        record_adjoints[k * width + head] = 0.0
    divisor_adjoints[k] = 0.0
    alive[k] = True
    return taped


@callee
def _read_last(n, last, order, records, divisors, penalty, gradient, reach):
    """Column ``last`` of log dZ/dw after all other tokens were eliminated in ``order``; the product of their D_k.

    ``reach``: the log chance that the walk from each token gets to the root and not to ``last``."""
    width, product = n + 1, 0.0
    for head in range(width):
        reach[head] = -np.inf
    reach[0] = 0.0
    for place in range(n - 2, -1, -1):
        k = order[place]
        product += divisors[k]
        top = -np.inf
        for head in range(width):
            top = max(top, records[k * width + head] + reach[head])
        if top == -np.inf:
            continue
        total = 0.0
        for head in range(width):
            total += np.exp(records[k * width + head] + reach[head] - top)
        reach[k] = top + np.log(total) - divisors[k]
    for head in range(width):
        if head != last and gradient.shape[0]:
            gradient[head * width + last] = product + reach[head] - (penalty if head == 0 else 0.0)
    return product


@callee
def _pull_last(n, last, order, records, divisors, reach, seeds, record_adjoints, divisor_adjoints, pulled):
    """:func:`_read_last` undone: adjoints of column ``last`` of log dZ/dw, which sum to 0, so that the product has
    none."""
    width = n + 1
    for head in range(width):
        pulled[head] = seeds[head * width + last] if head != last else 0.0
    for place in range(n - 1):
        k = order[place]
        adjoint = pulled[k]
        if adjoint == 0.0 or reach[k] == -np.inf:
            continue
        divisor_adjoints[k] -= adjoint
        for head in range(width):
            value = records[k * width + head] + reach[head]
            if value > -np.inf:
                share = adjoint * np.exp(value - divisors[k] - reach[k])
                record_adjoints[k * width + head] += share
                pulled[head] += share


@callee
def _tape_size(n):
    """Weights changed on the way from all tokens down to one, the larger half kept each time."""
    size, tokens = 0, n
    while tokens > 1:
        keep = tokens - tokens // 2
        for left in range(tokens // 2, tokens):  # tokens left after each elimination, of either half
            size += left * left
        tokens = keep
    return size


@callee
def _copy(source, target):
    for place in range(source.shape[0]):  # a slice assignment takes Numba longer to compile
        target[place] = source[place]


@callee
def _every_last(weights, n, penalty, gradient, seeds, adjoint):
    """Fills ``gradient`` with log dZ/dw, or, if it is empty, ``adjoint`` with the pull-back of its adjoints ``seeds``;
    log Z.

    Ranges of tokens that are left are halved: the graph of a range waits one level up while either half is
    eliminated from a copy of it (and, for the pull-back, brought back)."""
    width, size, back = n + 1, (n + 1) * (n + 1), gradient.shape[0] == 0
    levels = 2
    while (1 << (levels - 2)) < n:
        levels += 1
    graphs, adjoints = np.empty((levels, size)), np.zeros((levels, size if back else 0))
    records, record_adjoints = np.empty(size), np.zeros(size if back else 0)
    divisors, divisor_adjoints = np.zeros(width), np.zeros(width)
    reach, pulled = np.empty(width), np.empty(width)
    order, alive = np.empty(n, dtype=np.int64), np.ones(width, dtype=np.bool_)
    low, high, stage = np.empty(levels, np.int64), np.empty(levels, np.int64), np.zeros(levels, np.int64)
    tape = np.empty(_tape_size(n) if back else 0)
    _copy(weights, graphs[0])
    low[0], high[0] = 1, width
    level, eliminated, taped, log_total = 0, 0, 0, -np.inf
    while level >= 0:
        begin, end = low[level], high[level]
        if end - begin == 1:
            log_total = graphs[level, begin] + _read_last(n, begin, order, records, divisors, penalty, gradient, reach)
            if back:
                _pull_last(n, begin, order, records, divisors, reach, seeds, record_adjoints, divisor_adjoints, pulled)
        if end - begin == 1 or stage[level] == 2:
            if level > 0:  # the other half comes back: it was eliminated on the way down to this range
                others = (high[level - 1] - low[level - 1]) - (end - begin)
                for place in range(eliminated - 1, eliminated - others - 1, -1):
                    alive[order[place]] = not back
                    if back:
                        taped = _restore(
                            adjoints[level], n, order[place], alive, records, record_adjoints, divisors,
                            divisor_adjoints, tape, taped,
                        )  # fmt: skip
                eliminated -= others
                if back:
                    for at in range(size):
                        adjoints[level - 1, at] += adjoints[level, at]
            level -= 1
            continue
        middle = (begin + end) // 2
        keep_low, keep_high = (begin, middle) if stage[level] == 0 else (middle, end)
        stage[level] += 1
        level += 1
        _copy(graphs[level - 1], graphs[level])
        for at in range(adjoints.shape[1]):
            adjoints[level, at] = 0.0
        for token in range(begin, end):
            if not keep_low <= token < keep_high:
                taped = _eliminate(graphs[level], n, token, alive, records, divisors, tape, taped)
                order[eliminated] = token
                eliminated += 1
        low[level], high[level], stage[level] = keep_low, keep_high, 0
    if back:
        for at in range(size):
            adjoint[at] = adjoints[0, at]
    return log_total


@callee
def spanning_outside(scores, n, single_root, weights, log_gradient):
    """log Z (-inf: no tree), the penalty of root edges, and into ``log_gradient`` log dZ/dw up to a constant a column.

    ``weights`` (flat, n + 1 squared) is kept for :func:`spanning_pull_back`."""
    shift = load_weights(scores, n, weights)
    if shift == -np.inf:
        return -np.inf, 0.0
    penalty, least, nothing = 0.0, np.zeros(n + 1), np.empty(0)
    if single_root:
        penalty = _penalty(weights, n, least)
        for modifier in range(1, n + 1):
            weights[modifier] -= penalty
    total = _every_last(weights, n, penalty, log_gradient, nothing, nothing) + penalty
    if total == -np.inf:
        return -np.inf, penalty
    if single_root:  # what is below any tree of one root are trees of several
        bound = -SURE / 2
        for modifier in range(1, n + 1):
            bound += least[modifier]
        if total < bound:
            return -np.inf, penalty
        for head in range(n + 1):
            for modifier in range(1, n + 1):
                at = head * (n + 1) + modifier
                if head != modifier and log_gradient[at] + penalty < bound - least[modifier]:
                    log_gradient[at] = -np.inf
    return shift + total, penalty


@callee
def spanning_pull_back(scores, n, weights, penalty, given, adjoint):
    """Adjoints of the scores from those of the marginals and of logit p, as ``eisner.pull_back``.

    The elimination is undone step by step on logarithms: coefficients are shares, so near-certain edges, edges that
    only cycles rule out and temperature 1e-4 are fine. O(n^3) time and, for the tape, n^3 / 3 numbers."""
    size = (n + 1) * (n + 1)
    seeds = np.empty(size)
    column_seeds(scores, given, n, -np.inf, -np.inf, np.empty(size), seeds)
    _every_last(weights, n, penalty, np.empty(0), seeds, adjoint)
    for at in range(size):
        adjoint[at] = adjoint[at] + seeds[at] if np.isfinite(scores[at]) else 0.0


@callee
def _one_last(weights, n, last, penalty, gradient):
    """Column ``last`` of log dZ/dw alone; log Z. O(n^3)."""
    width, nothing = n + 1, np.empty(0)
    graph, records, order = weights.copy(), np.empty(width * width), np.empty(n, dtype=np.int64)
    divisors, alive, place = np.zeros(width), np.ones(width, dtype=np.bool_), 0
    for token in range(1, width):
        if token != last:
            _eliminate(graph, n, token, alive, records, divisors, nothing, 0)
            order[place] = token
            place += 1
    product = _read_last(n, last, order, records, divisors, penalty, gradient, np.empty(width))
    return product + graph[last]


@kernel
def draw_spanning(scores, n, single_root, uniforms, heads):
    """Trees drawn from the distribution of ``scores``: ``heads[samples, n + 1]`` from ``uniforms[samples, n]``.

    Token by token, each from its exact marginal given the heads before (chain rule): O(n^4) a tree, whatever the
    scores; a random walk would be faster on flat scores and would not end on peaked ones. log Z, or -inf."""
    size, width = (n + 1) * (n + 1), n + 1
    first, gradient = np.empty(size), np.empty(size)
    log_total, _ = spanning_outside(scores, n, single_root, first, gradient)
    if log_total == -np.inf:
        return -np.inf
    for sample in range(heads.shape[0]):
        weights = first.copy()
        heads[sample, 0] = -1
        for token in range(1, width):
            _one_last(weights, n, token, 0.0, gradient)
            top = -np.inf
            for head in range(width):
                if head != token:
                    top = max(top, weights[head * width + token] + gradient[head * width + token])
            total = 0.0
            for head in range(width):
                if head != token:
                    total += np.exp(weights[head * width + token] + gradient[head * width + token] - top)
            left, chosen = uniforms[sample, token - 1] * total, -1
            for head in range(width):
                if head != token and left >= 0.0:
                    weight = np.exp(weights[head * width + token] + gradient[head * width + token] - top)
                    if weight > 0.0:
                        chosen = head
                    left -= weight
            heads[sample, token] = chosen
            for head in range(width):
                if head != chosen:
                    weights[head * width + token] = -np.inf
    return log_total


@kernel
def spanning_forward_batch(trees, weights, penalties, gradient, found, share):
    """As ``eisner.forward_batch``; ``weights`` (flat like scores) is kept for the backward."""
    start, log_on, log_off, messages = trees.start, found.log_on, found.log_off, found.messages
    for sentence in range(share[0], trees.lengths.shape[0], share[1]):
        n, first, end = trees.lengths[sentence], start[sentence], start[sentence + 1]
        own, slope = trees.scores[first:end], gradient[first:end]
        log_z, penalties[sentence] = spanning_outside(own, n, trees.single_root, weights[first:end], slope)
        found.log_partition[sentence] = log_z
        if log_z > -np.inf:
            read_columns(own, slope, n, log_on[first:end], log_off[first:end], messages[first:end])


@kernel
def spanning_backward_batch(trees, weights, penalties, given, adjoint, share):
    """:func:`spanning_pull_back` of the same sentences."""
    for sentence in range(share[0], trees.lengths.shape[0], share[1]):
        n, first, end = trees.lengths[sentence], trees.start[sentence], trees.start[sentence + 1]
        spanning_pull_back(
            trees.scores[first:end], n, weights[first:end], penalties[sentence], given_of(given, first, end),
            adjoint[first:end],
        )  # fmt: skip
