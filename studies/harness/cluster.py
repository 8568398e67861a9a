"""The workers of a Dask cluster as a pool that jobs are given to.

In: the address of a scheduler. Out: :class:`ClusterPool`. Needs the package ``distributed``. Workers need the same
checkout, and see the folder of the runs under the same path.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

CHECKOUT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Lost:
    """The result of a call that was lost with several workers in turn."""

    call: Callable[..., Any]


CONNECTING = 10  # seconds that a scheduler has to answer


class ClusterPool(Executor):
    """Gives calls to the cluster at ``address``; ``workers``: how many it does at a time.

    Of a worker that is lost Dask gives the calls to others; of a call that is lost with several workers in turn (more
    than the scheduler's ``allowed-failures``), :class:`Lost` is the result.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ValueError(
                "--workers needs the package distributed of Dask: install it (pip install 'loopwise[dask]'), or leave "
                "--workers out"
            ) from None
        try:
            self._client: Any = Client(address, timeout=CONNECTING)  # type: ignore[no-untyped-call,unused-ignore]
        except (OSError, ValueError) as problem:
            raise ValueError(
                f"no Dask scheduler answers at {address!r} ({type(problem).__name__}); start one by: dask scheduler, "
                "and give the address that it prints"
            ) from problem
        self.workers = max(1, sum(self._client.nthreads().values()))  # type: ignore[no-untyped-call,unused-ignore]

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """A future of the call's result."""
        from distributed import KilledWorker

        done: Future[Any] = Future()
        asked = self._client.submit(_packed(partial(call, *arguments, **named)), pure=False)

        def ended(answer: Any) -> None:
            try:
                done.set_result(answer.result())
            except KilledWorker:
                done.set_result(Lost(call))
            except BaseException as problem:
                done.set_exception(problem)

        asked.add_done_callback(ended)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leaves the cluster, which goes on without us."""
        self._client.close()


def _packed(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call as bytes, opened on a worker only: a scheduler need not have the studies on its path."""
    held, checkout = pickle.dumps(call), CHECKOUT

    def opened() -> Any:
        if checkout not in sys.path:
            sys.path.insert(0, checkout)
        return pickle.loads(held)()

    return opened
