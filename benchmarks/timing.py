"""Timing for benchmarks: medians of several runs, contenders taking turns, so that noise hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def medians(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender over ``repeats`` rounds, after one unmeasured call."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}
