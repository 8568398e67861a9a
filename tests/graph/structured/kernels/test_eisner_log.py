"""Inside and outside sums in logarithms are those of probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.tree_cases import random_scores


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "scale"), [(15, 2.0), (80, 6.0)])
def test_both_domains_agree(single_root: bool, n: int, scale: float) -> None:
    """On sentences too long to enumerate: values and pull-backs from probabilities (the longer one takes the second
    trial) and from logarithms."""
    from loopwise.compiled.arithmetic import LOG_SUM
    from loopwise.graph.structured.kernels import eisner, eisner_log
    from loopwise.graph.structured.kernels.tree_columns import EdgeAdjoints, read_columns

    size = (n + 1) ** 2
    scores = random_scores(n, scale, seed=1).reshape(-1)
    charts, gradient = np.empty(eisner.charts_size(n)), np.empty(size)
    log_z, in_log = eisner.inside_outside(scores, n, single_root, charts, gradient)
    logs, log_gradient = np.empty(eisner.charts_size(n)), np.empty(size)
    shift = eisner.load_weights(scores, n, logs)
    assert shift + eisner_log.inside_log(logs, n, single_root, LOG_SUM) == pytest.approx(log_z, rel=1e-14, abs=1e-11)
    assert not in_log
    eisner_log.outside_log(logs, n, single_root)
    log_gradient[:] = logs[-size:]
    results = []
    for domain, own, slope in ((False, charts, gradient), (True, logs, log_gradient)):
        log_on, log_off, messages, adjoint = np.empty((4, size))
        read_columns(scores, slope, n, log_on, log_off, messages)
        draws = np.random.default_rng(2).standard_normal((2, size))
        given = EdgeAdjoints(log_on, log_off, draws[0], draws[1])
        eisner.pull_back(scores, n, single_root, own, domain, given, np.empty(len(own)), adjoint)
        results.append((np.exp(log_on), np.exp(log_off), messages, adjoint))
    for mine, theirs in zip(*results, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)
