"""Naive mean field: the best product of independent distributions, by coordinate ascent.

In: a problem without evidence. Out: :class:`Beliefs` whose log-partition function is a lower bound. Stage:
inference. The backward is in :mod:`loopwise.inference.mean_field.gradient`; the same sweep in differentiable torch
operations is in :mod:`loopwise.inference.mean_field.reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.gradient.base import Gradient, Report, check_gradient_of
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.marginals import MarginalGradient
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Unroll
from loopwise.graph.factor_graph import Integers
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.bethe import entropy_terms, expectation
from loopwise.inference.bracket import bracket
from loopwise.inference.gibbs.method import check_count, check_seed_temperature_threads, chunk_count, factor_arrays
from loopwise.inference.mean_field.gradient import MeanFieldRun, Numbers, differentiable_beliefs
from loopwise.inference.messages.implicit import implicit_beliefs
from loopwise.notices import ConvergenceWarning, warn

# Without a tolerance, convergence means that the last sweep changed nothing but rounding.
_ROUNDING = 100 * float(np.finfo(np.float64).eps)


class _Ascent(NamedTuple):
    """Where the coordinate ascent of each example ended."""

    beliefs: Numbers  # [examples, states]
    starts: Numbers  # [examples, states]: where the start that won began
    bounds: Numbers  # [examples], at temperature 1
    sweeps: Integers  # [examples]
    residuals: Numbers  # [examples]
    origins: Integers  # [examples]: the kind of start that won


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

    ``temperature`` t divides all potentials by t and bounds :math:`t \log Z(\theta / t)`. Time of a sweep: sum over
    factors of arity^2 x cells (arity x cells for pairs).

    ``gradient``: how variable beliefs, factor beliefs and the bound are differentiated. The start and the number of
    sweeps count as constants, and so does the choice among restarts. :class:`~loopwise.Unroll` undoes the sweeps of
    the start that won, converged or not. Of each run only its ends are kept: with the tapes ``Store`` and
    ``Recompute`` alike, the backward makes it again, an example a thread at a time, and keeps that example's sweeps
    (one more run; memory threads x sweeps x states); ``Checkpoints`` keeps every k-th of them and makes each stretch
    once more (less than two more runs); ``Fitting`` is the former while it fits into its limit, else the latter.
    Second derivatives are torch's, through :mod:`loopwise.inference.mean_field.reference`: right, but slow on large
    graphs. :class:`~loopwise.FixedPoint` makes adjoint sweeps at the final beliefs, backwards through the variables,
    until one adds less than its tolerance times the largest adjoint given; :class:`~loopwise.gradient.OneStep` makes
    one. Both need a converged run (else an error), as :class:`~loopwise.Perturbation` does; all three give first
    derivatives only.

    Parameters
    ----------
    iterations, tolerance: sweeps at most, and the change of beliefs at which they end.
    restarts: starts; the best bound wins.
    seed: decides them.
    temperature: see above.
    threads: None: as many as there are cores.
    gradient: how beliefs and bound are differentiated.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> potentials = lw.TablePotentials.random(graph, seed=0)
    >>> lower = MeanField()(graph, potentials).log_partition
    >>> bool(lower <= lw.Exact()(graph, potentials).log_partition)
    True
    """

    gradients: ClassVar[tuple[type[Gradient], ...]] = (Unroll, FixedPoint, OneStep, Perturbation)

    iterations: int = 100
    tolerance: float = 1e-6
    restarts: int = 1
    seed: int = 0
    temperature: float = 1.0
    threads: int | None = None
    gradient: Gradient = field(default_factory=Unroll)

    def __post_init__(self) -> None:
        check_gradient_of(self, self.gradient, self.gradients)
        check_count("iterations", self.iterations, 1)
        check_count("restarts", self.restarts, 1)
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance must be at least 0 and finite, not {self.tolerance!r}")
        check_seed_temperature_threads(self.seed, self.temperature, self.threads)

    def run(self, problem: Problem) -> Beliefs:
        if not problem.differentiable:
            return self._fixed_beliefs(problem)
        if isinstance(self.gradient, MarginalGradient):
            return implicit_beliefs(self, problem, None)
        return self._differentiable_beliefs(replace(problem, folded=problem.unary()))

    def _fixed_beliefs(self, problem: Problem) -> Beliefs:
        """Beliefs without gradients; the bound is the kernel's."""
        found = self._ascend(problem)
        states = torch.from_numpy(found.beliefs).to(problem.like).reshape(*problem.batch, found.beliefs.shape[1])
        bound = torch.from_numpy(found.bounds).to(problem.like).reshape(problem.batch)
        bound = self.temperature * bound + problem.constant().detach()
        status = self._status(problem, found)
        return Beliefs(
            problem.graph,
            states,
            lambda name: _product(problem, name, states),
            lambda: bound,
            status,
            bounds=lambda: bracket(problem, self.temperature, lower=bound),
        )

    def _differentiable_beliefs(self, problem: Problem) -> Beliefs:
        found = self._ascend(problem)
        status = self._status(problem, found)
        run = MeanFieldRun(
            graph=problem.graph,
            batch=problem.batch,
            like=problem.like,
            temperature=self.temperature,
            threads=self.threads,
            gradient=self.gradient,
            starts=found.starts,
            sweeps=found.sweeps,
            converged=status.converged,
        )
        report = Report(type(self.gradient).__name__)
        precise = differentiable_beliefs(run, found.beliefs, problem, report)
        states = precise.to(problem.like)
        bounded = torch.from_numpy(np.isfinite(found.bounds)).reshape(problem.batch).to(problem.like.device)
        return Beliefs(
            problem.graph,
            states,
            lambda name: _product(problem, name, states),
            lambda: torch.where(bounded, _lower_bound(problem, precise, self.temperature), -torch.inf).to(problem.like),
            status,
            gradient=report,
            bounds=lambda: bracket(problem, self.temperature),
        )

    def _ascend(self, problem: Problem) -> _Ascent:
        from loopwise.inference.mean_field.kernels.mean_field import run_mean_field

        examples, states = problem.batch.numel(), problem.graph.layout.states
        found = _Ascent(
            beliefs=np.zeros((examples, states)),
            starts=np.zeros((examples, states)),
            bounds=np.zeros(examples),
            sweeps=np.zeros(examples, dtype=np.int64),
            residuals=np.zeros(examples),
            origins=np.zeros(examples, dtype=np.int64),
        )
        options = (int(self.iterations), float(self.tolerance), int(self.restarts), int(self.seed))
        arrays, chunks = factor_arrays(problem, self.temperature), chunk_count(self.threads, examples)
        in_threads(chunks, lambda chunk: run_mean_field(arrays, options, chunk, chunks, *found))
        return found

    def _status(self, problem: Problem, found: _Ascent) -> Status:
        from loopwise.inference.mean_field.kernels.mean_field import FAILED, FROM_CONFIGURATION

        sweeps, residuals, origins = found.sweeps, found.residuals, found.origins
        examples, failed = len(origins), int((origins == FAILED).sum())
        moved = int((origins == FROM_CONFIGURATION).sum())
        notes = []
        if moved:
            notes.append(f"{moved} of {examples} examples started from a possible configuration (hard zeros)")
        if failed:
            notes.append(f"{failed} of {examples} examples have no start of finite bound (hard zeros)")
            warn(
                f"mean field found no start of finite bound for {failed} of {examples} examples: "
                "use more restarts, or a method that handles hard constraints",
                ConvergenceWarning,
            )
        late = int(((residuals > (self.tolerance or _ROUNDING)) & (origins != FAILED)).sum())
        if late and self.tolerance > 0:
            warn(
                f"mean field stopped at its cap of {self.iterations} sweeps in {late} of {examples} "
                f"examples: residual {residuals[origins != FAILED].max():.2g} is above {self.tolerance:.2g}; more "
                "iterations help, tolerance=0 accepts the budget as it is",
                ConvergenceWarning,
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


def _lower_bound(problem: Problem, states: Tensor, temperature: float) -> Tensor:
    """Expected log-potential plus ``temperature`` x entropy, ``[*batch]``; cells of probability 0 count nothing."""
    total = expectation(problem.unary().to(states), states).sum(-1) + temperature * entropy_terms(states).sum(-1)
    for member in problem.graph.layout.message_groups:
        table = problem.table(member.group.name).to(states)
        axes = tuple(range(-1 - member.group.arity, 0))
        total = total + expectation(table, _product(problem, member.group.name, states)).sum(axes)
    return total + problem.constant()
