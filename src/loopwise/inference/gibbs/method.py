"""Gibbs sampling: marginals from chains that redraw one variable at a time.

In: a problem without evidence. Out: :class:`Beliefs` by averages over samples, or (:func:`sample`) the
samples themselves. Stage: inference. :func:`factor_arrays` also serves mean field, which reads tables the
same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.threads import available_threads, in_threads
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.offsets import starts_of
from loopwise.inference.base import COLDEST, Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.notices import ConvergenceWarning, warn

if TYPE_CHECKING:
    from loopwise.inference.gibbs.kernels.gibbs import BinaryArrays, FactorArrays

# Chains count as mixed below this split R-hat. The classic 1.1 (Gelman et al., Bayesian Data Analysis, 11.4)
# passes chains that still disagree visibly; the 1.01 of Vehtari et al. (2021) is meant for a handful of
# parameters, while here the largest of all states counts, which is above 1.01 by chance alone at a few
# hundred samples a chain.
MIXED = 1.05
SAMPLE_BYTES = 1 << 30  # beyond this no samples are kept: 16 chains x 1000 samples of 67,000 variables
_LARGEST_SEED = 2**63 - 1
_HUGE = 1e300  # log-potentials beyond this (-inf too) stay in tables: their differences may not be numbers


@dataclass(frozen=True)
class Gibbs(Inference):
    r"""Single-site Gibbs sampling (Geman and Geman 1984): :math:`x_i \sim p(x_i \mid x_{-i})` in turn.

    ``chains`` independent chains an example start at random, throw ``burn_in`` sweeps away and then keep
    ``samples`` samples each, ``thinning`` sweeps apart. Variable marginals are Rao-Blackwellised (Gelfand and
    Smith 1990): the average of the conditional :math:`p(x_i \mid x_{-i})` at the kept visits, which varies
    less than counting. Factor marginals are counted, from samples kept up to 1 GiB in all; so they agree with
    the variables' only up to sampling noise. There is no estimate of the log-partition function, and no
    gradient.

    A chain that starts on forbidden ground walks to where fewer factors forbid it; if it has not reached a
    possible configuration by the end of burn-in, it is left out. ``status.converged`` says that the split
    R-hat of every state is below :data:`MIXED`; ``status.residual`` is the largest R-hat less 1.

    ``temperature`` t samples from the potentials divided by t. The same ``seed`` gives the same result on any
    number of ``threads``. Time: chains x sweeps x sum over edges of (arity + cardinality), less for binary
    pairwise models.

    Parameters
    ----------
    samples, burn_in, thinning: kept of each chain, sweeps thrown away first, sweeps between two that are kept.
    chains: of each example.
    seed: the same seed gives the same result.
    temperature: samples are of the potentials divided by it.
    threads: None: as many as there are cores.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> found = Gibbs(samples=2000)(graph, lw.TablePotentials(graph)).variables
    >>> bool((found - 0.5).abs().max() < 0.05)
    True
    """

    samples: int = 1000
    burn_in: int = 200
    thinning: int = 1
    chains: int = 16
    seed: int = 0
    temperature: float = 1.0
    threads: int | None = None

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 4)  # two in each half, for a variance
        check_count("burn_in", self.burn_in, 0)
        check_count("thinning", self.thinning, 1)
        check_count("chains", self.chains, 1)
        check_seed_temperature_threads(self.seed, self.temperature, self.threads)

    def run(self, problem: Problem) -> Beliefs:
        examples, layout = problem.batch.numel(), problem.graph.layout
        bytes_needed = _sample_bytes(problem.graph, examples * self.chains * self.samples)
        totals = np.zeros((examples, self.chains, layout.states))
        counts = np.zeros((examples, self.chains, 2, layout.states), dtype=np.int64)
        possible, samples = _run_chains(
            problem,
            self,
            (self.burn_in, self.thinning, self.samples, self.thinning),
            bytes_needed <= SAMPLE_BYTES,
            totals,
            counts,
        )
        lost = np.flatnonzero(~possible.any(axis=1))
        if len(lost):
            raise ValueError(
                f"Gibbs found no possible configuration of example {lost[0]} in {self.chains} chains of "
                f"{self.burn_in} sweeps; raise chains or burn_in, or use a method for hard constraints"
            )
        # Chains that never reached the support recorded nothing: their rows are zero.
        sums = totals.sum(axis=1) / (self.samples * possible.sum(axis=1))[:, None]
        shrink = split_r_hat(counts, possible, self.samples // 2).max(axis=-1, initial=1.0)  # [examples]
        states = torch.from_numpy(sums).to(problem.like).reshape(*problem.batch, layout.states)
        status = self._status(problem, shrink, possible)
        if not status.converged:
            warn(
                f"Gibbs chains disagree: split R-hat {shrink.max(initial=1.0):.3g} is not below {MIXED}; "
                "raise burn_in and samples",
                ConvergenceWarning,
            )

        def factors(name: str) -> Tensor:
            return _factor_marginals(problem, name, states, samples, possible, bytes_needed, self.threads)

        return Beliefs(problem.graph, states, factors, _no_log_partition, status)

    def _status(self, problem: Problem, shrink: NDArray[np.float64], possible: NDArray[np.bool_]) -> Status:
        notes = [f"split R-hat {shrink.max(initial=1.0):.4g}"]
        if not possible.all():
            notes.append(
                f"{int((~possible).sum())} of {possible.size} chains left out: no possible configuration in burn-in"
            )
        sweeps = self.burn_in + self.samples * self.thinning
        return Status(
            method="Gibbs",
            exact=False,
            converged=bool((shrink < MIXED).all()),
            sweeps=torch.full(problem.batch, sweeps, dtype=torch.int64),
            residual=torch.from_numpy(shrink - 1.0).reshape(problem.batch),
            engine="compiled",
            notes=tuple(notes),
        )


def sample(
    graph: FactorGraph,
    potentials: object,
    count: int,
    *,
    seed: int,
    evidence: EvidenceLike = None,
    burn_in: int = 2000,
    chains: int | None = None,
    thinning: int = 200,
    temperature: float = 1.0,
    threads: int | None = None,
) -> Tensor:
    """``count`` samples of the model given ``evidence``, int64 ``[count, variables]``.

    By default each sample ends a chain of its own, ``burn_in`` sweeps after a random start, so samples are
    independent (Stoyanov et al. 2011, section 6). With fewer ``chains`` each gives several samples,
    ``thinning`` sweeps apart; rows then go chain by chain. The result depends on ``seed`` but not on
    ``threads``.
    """
    check_count("count", count, 0)
    check_count("burn_in", burn_in, 0)
    check_count("thinning", thinning, 1)
    if chains is not None:
        check_count("chains", chains, 1)
    check_seed_temperature_threads(seed, temperature, threads)
    sampler = _Sampler(count, burn_in, min(chains or count, count), thinning, seed, temperature, threads)
    return sampler(graph, potentials, evidence).assignment


@dataclass(frozen=True)
class _Sampler(Inference):
    """Draws samples through the shared call, which slices evidence away and puts it back."""

    count: int
    burn_in: int
    chains: int
    thinning: int
    seed: int
    temperature: float
    threads: int | None

    def run(self, problem: Problem) -> Beliefs:
        if problem.batch:
            raise ValueError(
                f"sample takes one model and one evidence, not a batch of shape {tuple(problem.batch)}; "
                "call it once for each"
            )
        draws = -(-self.count // self.chains) if self.count else 0
        possible, samples = _run_chains(
            problem,
            self,
            (self.burn_in, 0, draws, self.thinning),
            True,
            np.zeros((1, self.chains, 0)),
            np.zeros((1, self.chains, 2, 0), dtype=np.int64),
        )
        if not possible.all():
            raise ValueError(
                f"{int((~possible).sum())} of {possible.size} chains found no possible configuration in "
                f"{self.burn_in} sweeps; raise burn_in"
            )
        values = torch.from_numpy(
            samples.reshape(self.chains * draws, problem.graph.variables)[: self.count].astype(np.int64)
        )
        states = problem.like.new_zeros(problem.graph.layout.states)  # marginals are not asked for
        length = torch.tensor(self.burn_in + max(draws - 1, 0) * self.thinning)
        status = Status("Gibbs", False, False, length, torch.tensor(torch.inf), engine="compiled")
        device = problem.like.device
        return Beliefs(
            problem.graph,
            states,
            lambda name: states,
            _no_log_partition,
            status,
            assignment=lambda: values.to(device),
        )


def _run_chains(
    problem: Problem,
    options: Gibbs | _Sampler,
    schedule: tuple[int, int, int, int],
    keep: bool,
    totals: NDArray[np.float64],
    counts: Integers,
) -> tuple[NDArray[np.bool_], Integers]:
    """Which chains reached the support ``[examples, chains]``, and the samples (empty unless ``keep``)."""
    from loopwise.inference.gibbs.kernels.gibbs import SampleSchedule, run_binary_chains, run_chains

    graph, examples, chains = problem.graph, problem.batch.numel(), options.chains
    possible = np.zeros((examples, chains), dtype=np.bool_)
    shape = (examples, chains, schedule[2] if keep else 0, graph.variables)
    samples = np.zeros(shape, dtype=_value_dtype(graph))
    chunks = chunk_count(options.threads, examples * chains)
    binary = binary_arrays(problem, options.temperature)
    run, arrays = (
        (run_chains, factor_arrays(problem, options.temperature)) if binary is None else (run_binary_chains, binary)
    )
    given, found = (arrays, options.seed, SampleSchedule(*schedule)), (possible, samples, totals, counts)
    in_threads(chunks, lambda chunk: run(*given, chunk, chunks, *found))
    return possible, samples


def split_r_hat(counts: Integers, possible: NDArray[np.bool_], half: int) -> NDArray[np.float64]:
    r"""Split R-hat of the indicator of each state, ``[examples, states]`` (Gelman et al. 2013, section 11.4).

    ``counts`` ``[examples, chains, 2, states]``: visits in each half of ``half`` samples. With m half chains
    of length n, means :math:`p_j` and variances :math:`s_j^2 = \frac{n}{n-1} p_j (1 - p_j)`, :math:`\hat R^2
    = (\frac{n-1}{n} W + B/n) / W`, where W is the mean of the variances and B/n the variance of the means.
    Chains that never move give 1 if they agree and infinity if they do not.
    """
    means = counts / half
    weight = possible[:, :, None, None]
    chains = 2 * possible.sum(axis=1)[:, None]
    within = (means * (1.0 - means) * half / (half - 1) * weight).sum(axis=(1, 2)) / chains
    centre = (means * weight).sum(axis=(1, 2)) / chains
    between = (np.square(means - centre[:, None, None]) * weight).sum(axis=(1, 2)) / (chains - 1)
    frozen = within == 0
    ratio = between / np.where(frozen, 1.0, within)
    still = np.where(between > 0, np.inf, 1.0)
    return np.where(frozen, still, np.sqrt((half - 1) / half + ratio))


def _factor_marginals(
    problem: Problem,
    name: str,
    states: Tensor,
    samples: Integers,
    possible: NDArray[np.bool_],
    bytes_needed: int,
    threads: int | None,
) -> Tensor:
    group, graph = problem.graph.group(name), problem.graph
    if group.arity == 0:
        return states.new_ones(*problem.batch, group.count)
    if group.arity == 1:
        index = graph.layout.state_start[group.scopes[:, 0]][:, None] + np.arange(group.shape[0])
        return states[..., torch.as_tensor(index, device=states.device)]
    if bytes_needed > SAMPLE_BYTES:
        raise ValueError(
            f"factor marginals of group {name!r} need the samples, whose {bytes_needed:,} bytes "
            f"exceed the limit of {SAMPLE_BYTES:,}; use fewer samples, chains or examples"
        )
    from loopwise.inference.gibbs.kernels.gibbs import count_cells

    counts = np.zeros((len(samples), group.count, group.cells))
    scopes, strides, chunks = group.scopes.copy(), _strides(group.shape), chunk_count(threads, group.count)
    ends = [group.count * chunk // chunks for chunk in range(chunks + 1)]
    in_threads(chunks, lambda k: count_cells(samples, possible, scopes, strides, ends[k], ends[k + 1], counts))
    counts /= (possible.sum(axis=1) * samples.shape[2])[:, None, None]
    return torch.from_numpy(counts).to(states).reshape(*problem.batch, group.count, *group.shape)


def _no_log_partition() -> Tensor:
    raise ValueError("Gibbs sampling gives no estimate of the log-partition function; use BP, TRW, MeanField or Exact")


def factor_arrays(problem: Problem, temperature: float) -> FactorArrays:
    """The factors of arity 2 and more with tables divided by ``temperature``, as compiled loops read them.

    Tables shared by factors or by examples are stored once.
    """
    from loopwise.inference.gibbs.kernels.gibbs import FactorArrays

    layout = problem.graph.layout
    pieces, starts, steps, strides, cells = [], [], [], [], 0
    for member in layout.message_groups:
        group = member.group
        table = _examples_first(problem.tables[group.name], problem.batch, 1 + group.arity) / temperature
        rows = table.shape[1]
        pieces.append(table.reshape(-1))
        starts.append(cells + (np.arange(group.count) * (group.cells if rows == group.count else 0)))
        steps.append(np.full(group.count, rows * group.cells if len(table) > 1 else 0))
        strides.append(np.tile(_strides(group.shape), group.count))
        cells += table.size
    sizes = np.bincount(layout.edge_factor, minlength=layout.message_factors)
    return FactorArrays(
        unary=_examples_first(problem.unary(), problem.batch, 1) / temperature,
        tables=np.concatenate([np.zeros(0), *pieces]),
        table_start=_integers(starts),
        table_step=_integers(steps),
        factor_edge_start=starts_of(sizes),
        edge_variable=layout.edge_variable,
        edge_factor=layout.edge_factor,
        edge_stride=_integers(strides),
        variable_edge_start=layout.variable_edge_start,
        variable_edges=layout.variable_edges,
        state_start=layout.state_start,
    )


def binary_arrays(problem: Problem, temperature: float) -> BinaryArrays | None:
    """Log odds and couplings of a model of binary variables and finite pair tables, else None."""
    from loopwise.inference.gibbs.kernels.gibbs import BinaryArrays

    graph, layout = problem.graph, problem.graph.layout
    if (graph.cardinalities != 2).any() or any(member.group.arity > 2 for member in layout.message_groups):
        return None
    unary = _examples_first(problem.unary(), problem.batch, 1) / temperature
    bias = unary[:, 1::2] - unary[:, ::2]  # [examples or 1, variables]
    couplings = [np.zeros((1, 0))]
    for member in layout.message_groups:
        table = _examples_first(problem.tables[member.group.name], problem.batch, 3) / temperature
        if not (np.abs(table) < _HUGE).all():
            return None
        first_on, second_on = table[:, :, 1, 0] - table[:, :, 0, 0], table[:, :, 0, 1] - table[:, :, 0, 0]
        coupling = table[:, :, 1, 1] - table[:, :, 0, 0] - first_on - second_on
        shape = (len(coupling), member.group.count)
        if len(coupling) > len(bias):
            bias = np.repeat(bias, len(coupling), axis=0)
        for axis, odds in enumerate((first_on, second_on)):
            np.add.at(bias.T, member.group.scopes[:, axis], np.broadcast_to(odds, shape).T)
        couplings.append(np.repeat(np.broadcast_to(coupling, shape), 2, axis=1))  # both edges of the factor
    examples = max(len(coupling) for coupling in couplings)
    flat = np.concatenate([np.broadcast_to(part, (examples, part.shape[1])) for part in couplings], axis=1)
    other = layout.edge_variable.reshape(-1, 2)[:, ::-1].reshape(-1)
    return BinaryArrays(
        bias=np.ascontiguousarray(bias),
        coupling=np.ascontiguousarray(flat[:, layout.variable_edges]),
        neighbour=np.ascontiguousarray(other[layout.variable_edges]),
        neighbour_start=layout.variable_edge_start,
    )


def chunk_count(threads: int | None, tasks: int) -> int:
    """Into how many parts parallel work is cut: ``threads`` (default: all), never more than tasks."""
    return max(1, min(threads or available_threads(), tasks))


def check_count(name: str, value: int, least: int) -> None:
    """Raises unless option ``name`` is an integer of at least ``least``."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")


def check_seed_temperature_threads(seed: int, temperature: float, threads: int | None) -> None:
    """Raises for values that the options shared by sampling and mean field cannot have."""
    check_count("seed", seed, 0)
    if seed > _LARGEST_SEED:
        raise ValueError(f"seed must be at most {_LARGEST_SEED}, not {seed}")
    if not COLDEST <= temperature < math.inf:
        raise ValueError(f"temperature must be a number from {COLDEST:g} on, not {temperature!r}")
    if threads is not None:
        check_count("threads", threads, 1)


def _examples_first(tensor: Tensor, batch: torch.Size, rank: int) -> NDArray[np.float64]:
    """``[examples, ...]`` in float64, or ``[1, ...]`` where all examples share the tensor."""
    tail = tensor.shape[tensor.ndim - rank :]
    if tensor.numel() != tail.numel():
        tensor = tensor.expand(*batch, *tail)
    rows = 1 if tensor.numel() == tail.numel() else batch.numel()
    array: NDArray[np.float64] = tensor.detach().to("cpu", torch.float64).reshape(rows, *tail).numpy()
    return array


def _strides(shape: tuple[int, ...]) -> Integers:
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)


def _integers(pieces: list[NDArray[np.int64]]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *pieces]).astype(np.int64)


def _value_dtype(graph: FactorGraph) -> np.dtype[np.signedinteger]:
    largest = int(graph.cardinalities.max(initial=1)) - 1
    return np.dtype(np.int8 if largest < 1 << 7 else np.int16 if largest < 1 << 15 else np.int32)


def _sample_bytes(graph: FactorGraph, samples: int) -> int:
    return samples * graph.variables * _value_dtype(graph).itemsize
