"""Many configurations at once: a grid of settings, a run each, on several processes.

In: a function and its arguments. Out: its results, in order. Stage: learning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from loopwise.arguments import checked_whole
from loopwise.learn.distributed import apart

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def sweep(function: Callable[..., Result], configurations: Iterable[Mapping[str, Any]], jobs: int = 2) -> list[Result]:
    """``[function(**configuration) for configuration in configurations]``, ``jobs`` at a time.

    Runs go through joblib, in local processes unless ``joblib.parallel_config`` chose another backend (Dask, Ray,
    Spark). Each process has its share of the cores. A run that fails names its configuration.

    >>> sweep(pow, [], jobs=2)
    []
    """
    chosen = [dict(configuration) for configuration in configurations]
    checked_whole("jobs", jobs)
    if jobs == 1 or not chosen:
        return [_named(function, configuration) for configuration in chosen]
    try:
        import joblib  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "a sweep of several jobs needs joblib: install it (pip install 'loopwise[sklearn]'), or give jobs=1"
        ) from None
    from loopwise.compiled.threads import available_threads

    cores = max(1, available_threads() // jobs)
    logger.info("%d runs, %d at a time with %d threads each", len(chosen), jobs, cores)
    work = joblib.delayed(_in_worker)
    done: list[Result] = joblib.Parallel(n_jobs=jobs)(
        work(function, configuration, os.getpid(), cores) for configuration in chosen
    )
    return done


def _in_worker(function: Callable[..., Result], configuration: dict[str, Any], parent: int, cores: int) -> Result:
    if os.getpid() != parent:  # a process of its own: else the setting would be everyone's
        import torch

        os.environ["LOOPWISE_THREADS"] = str(cores)
        torch.set_num_threads(cores)
    with apart():  # a run is no part of what others train, wherever its worker was started
        return _named(function, configuration)


def _named(function: Callable[..., Result], configuration: dict[str, Any]) -> Result:
    try:
        return function(**configuration)
    except ValueError as problem:
        raise ValueError(f"{problem} (in the run with {configuration})") from problem
