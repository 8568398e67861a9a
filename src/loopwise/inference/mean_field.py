"""Naive mean field: the best product of independent distributions, by coordinate ascent.

In: a problem without evidence. Out: :class:`Beliefs` whose log-partition function is a lower bound. Stage:
inference. The same sweep in differentiable torch operations is in
:mod:`loopwise.inference.mean_field_reference`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.gibbs import check_count, check_seed_temperature_threads, chunk_count, factor_arrays
from loopwise.notices import ConvergenceWarning


@dataclass(frozen=True)
class MeanField(Inference):
    r"""Coordinate ascent on the bound :math:`E_q[\theta(x)] + H(q)` over :math:`q(x) = \prod_i q_i(x_i)`.

    Variables are visited in order (Jordan et al. 1999; Wainwright and Jordan 2008, eq. 5.17), each set to its
    optimum

    .. math::
        \log q_i(x) = \theta_i(x)
        + \sum_{\alpha \ni i} E_{q_{\alpha \setminus i}}[\theta_\alpha(x, \cdot)] + c

    until no belief changes by more than ``tolerance`` in a sweep, or for ``iterations`` sweeps. The bound,
    which is ``log_partition`` here, never falls and never exceeds the log-partition function. Factor beliefs
    are products of variable beliefs.

    The first start is uniform up to a relative noise of 1e-2 / 2 (a symmetric model would hold an exactly
    uniform start on a saddle point); further ``restarts`` start uniform on each simplex; the best bound wins,
    example by example. Where hard zeros leave some variable without a value of finite expectation, that start
    is replaced by a point mass on a possible configuration, found by a Gibbs walk from the same random
    stream; if none is found from any start, the bound is -inf, the status says so and a
    :class:`ConvergenceWarning` is given.

    ``temperature`` t divides all potentials by t and bounds :math:`t \log Z(\theta / t)`. Beliefs carry no
    gradient. Time of a sweep: sum over factors of arity^2 x cells (arity x cells for pairs).
    """

    iterations: int = 100
    tolerance: float = 1e-6
    restarts: int = 1
    seed: int = 0
    temperature: float = 1.0
    threads: int | None = None

    def __post_init__(self) -> None:
        check_count("iterations", self.iterations, 1)
        check_count("restarts", self.restarts, 1)
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance must be at least 0 and finite, not {self.tolerance!r}")
        check_seed_temperature_threads(self.seed, self.temperature, self.threads)

    def run(self, problem: Problem) -> Beliefs:
        from loopwise.kernels.mean_field import run_mean_field

        examples = problem.batch.numel()
        beliefs = np.zeros((examples, problem.graph.layout.states))
        bounds, residuals = np.zeros(examples), np.zeros(examples)
        sweeps, origins = np.zeros(examples, dtype=np.int64), np.zeros(examples, dtype=np.int64)
        run_mean_field(
            factor_arrays(problem, self.temperature),
            (int(self.iterations), float(self.tolerance), int(self.restarts), int(self.seed)),
            chunk_count(self.threads, examples),
            beliefs,
            bounds,
            sweeps,
            residuals,
            origins,
        )
        states = torch.from_numpy(beliefs).to(problem.like).reshape(*problem.batch, beliefs.shape[1])
        bound = torch.from_numpy(bounds).to(problem.like).reshape(problem.batch)
        bound = self.temperature * bound + problem.constant().detach()
        status = self._status(problem, sweeps, residuals, origins)
        return Beliefs(problem.graph, states, lambda name: _product(problem, name, states), lambda: bound, status)

    def _status(self, problem: Problem, sweeps: Integers, residuals: np.ndarray, origins: Integers) -> Status:
        from loopwise.kernels.mean_field import FAILED, FROM_CONFIGURATION

        examples, failed = len(origins), int((origins == FAILED).sum())
        moved = int((origins == FROM_CONFIGURATION).sum())
        notes = []
        if moved:
            notes.append(f"{moved} of {examples} examples started from a possible configuration (hard zeros)")
        if failed:
            notes.append(f"{failed} of {examples} examples have no start of finite bound (hard zeros)")
            warnings.warn(
                f"mean field found no start of finite bound for {failed} of {examples} examples: "
                "use more restarts, or a method that handles hard constraints",
                ConvergenceWarning,
                stacklevel=3,
            )
        late = int(((residuals > self.tolerance) & (origins != FAILED)).sum())
        if late and self.tolerance > 0:
            warnings.warn(
                f"mean field stopped at its cap of {self.iterations} sweeps in {late} of {examples} "
                f"examples: residual {residuals[origins != FAILED].max():.2g} is above {self.tolerance:.2g}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return Status(
            method="MeanField",
            exact=False,
            converged=not late and not failed,
            sweeps=torch.from_numpy(sweeps).reshape(problem.batch),
            residual=torch.from_numpy(residuals).reshape(problem.batch),
            engine="compiled",
            domain="log",
            notes=tuple(notes),
        )


def _product(problem: Problem, name: str, states: Tensor) -> Tensor:
    """Outer products of the members' beliefs, ``[*batch, factors, *shape]``."""
    group, start = problem.graph.group(name), problem.graph.layout.state_start
    product = states.new_ones(*problem.batch, group.count, *(1 for _ in group.shape))
    for axis, size in enumerate(group.shape):
        index = torch.as_tensor(start[group.scopes[:, axis]][:, None] + np.arange(size), device=states.device)
        alone = [size if other == axis else 1 for other in range(group.arity)]
        product = product * states[..., index].reshape(*problem.batch, group.count, *alone)
    return product
