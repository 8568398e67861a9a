r"""Legs: sweeps with numbers of their own, one leg after another until the syndrome is explained.

In: a code, strengths of memory, weights. Out: :class:`Leg`, given to ``lw.apps.Decoder(legs=...)``; :func:`relay` draws
some. Stage: use.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.rules import MinSum, Rule
from loopwise.arguments import checked_array, checked_whole
from loopwise.inference.families.parity import Bits, ParityChecks, Passing

MOST_MEMORY = 0.99  # that training goes to: at 1 a bit would never hear of its prior again


class Leg(nn.Module):
    r"""So many sweeps, and the numbers they use: in sweep t the message over edge e is scaled by
    :math:`\exp(a_e + b_t)`, and bit i remembers a share :math:`\gamma_i` of its belief in place of its prior, which
    counts :math:`\exp(c_i)` times. All of these are 0 until they are given or trained.

    Parameters
    ----------
    code: the code.
    sweeps: at most so many.
    memory: strengths of bits, one number or one each, below 1, also negative; None for none.
    resumes: whether bits remember the beliefs that the leg before left (a relay); else the leg begins anew.
    edge_ties: which edges share a weight, whole numbers from 0 for each edge (by check, then bit); None: none do.
    order: in which layered sweeps take checks, each once; None: as they stand. A random one often converges sooner than
        one in which neighbours follow one another, and another one gets caught by other shots.

    >>> leg = Leg(Code.of([[1, 1]], 0.1), 10, memory=0.125)
    >>> leg
    Leg(10 sweeps, memory)
    """

    edge: nn.Parameter | None
    sweep: nn.Parameter | None
    memory: nn.Parameter | None
    prior: nn.Parameter | None

    def __init__(
        self,
        code: Code,
        sweeps: int,
        *,
        memory: ArrayLike | None = None,
        resumes: bool = True,
        edge_ties: ArrayLike | None = None,
        order: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        self.sweeps, self.resumes = checked_whole("sweeps", sweeps), resumes
        self.edges, self.bits = code.checks.edges, code.bits
        for name in ("edge", "sweep", "memory", "prior"):
            self.register_parameter(name, None)
        self.edge_ties = _ties(edge_ties, code.checks.edges)
        self.order = _order(order, code.checks.count)
        self._arranged: tuple[ParityChecks, ParityChecks, NDArray[np.int64]] | None = None
        if memory is not None:
            self.memory = nn.Parameter(_strengths(memory, code.bits), requires_grad=False)

    @property
    def goes_on(self) -> bool:
        """Whether it takes the beliefs that the leg before left: what is remembered, if anything is."""
        return self.resumes and self.memory is not None

    def open(self, *, edges: bool = False, sweeps: bool = False, memory: bool = False, priors: bool = False) -> None:
        """Says what is trained; numbers that were not there begin as 0."""
        ties = self.edges if self.edge_ties is None else int(self.edge_ties.max()) + 1
        for name, wanted, size in (
            ("edge", edges, ties),
            ("sweep", sweeps, self.sweeps),
            ("memory", memory, self.bits),
            ("prior", priors, self.bits),
        ):
            if wanted and getattr(self, name) is None:
                setattr(self, name, nn.Parameter(torch.zeros(size)))
            if getattr(self, name) is not None:
                getattr(self, name).requires_grad_(wanted)

    def passing(self, rule: Rule, layered: bool) -> Passing:
        """The numbers of message passing, of which those that are trained want a gradient."""
        scale = torch.zeros(1, self.edges, dtype=torch.float64)  # decoders in double precision see no rounding of these
        if self.edge is not None:
            scale = scale + (self.edge if self.edge_ties is None else self.edge[self.edge_ties])
        if self.sweep is not None:
            scale = scale + self.sweep[:, None]
        least = isinstance(rule, MinSum)
        offset = rule.offset if isinstance(rule, MinSum) else 0.0
        times = rule.scale if isinstance(rule, MinSum) else 1.0
        offsets = torch.full((1, self.edges), offset, dtype=torch.float64)
        memory = torch.zeros(0, self.bits) if self.memory is None else self.memory[None]
        return Passing(times * scale.exp(), offsets, memory.double(), least, layered)

    def arranged(self, checks: ParityChecks, passing: Passing, bits: Bits) -> tuple[ParityChecks, Passing, Bits]:
        """Checks, numbers of message passing and syndromes in the order in which this leg takes checks."""
        if self.order is None or not passing.layered:
            return checks, passing, bits
        if self._arranged is None or self._arranged[0] is not checks:
            self._arranged = checks, *checks.ordered(self.order)
        _, mine, edges = self._arranged
        turned = passing._replace(weights=passing.weights[:, edges], offsets=passing.offsets[:, edges])
        return mine, turned, np.ascontiguousarray(bits[:, self.order])

    def priors(self, log_odds: Tensor) -> Tensor:
        """What this leg takes for the log-odds of bits."""
        return log_odds if self.prior is None else log_odds * self.prior.exp()

    @torch.no_grad()
    def keep_in_range(self) -> None:
        """After a step of training."""
        if self.memory is not None:
            self.memory.clamp_(max=MOST_MEMORY)

    def __repr__(self) -> str:
        held = [name for name in ("edge", "sweep", "memory", "prior", "order") if getattr(self, name) is not None]
        return f"Leg({', '.join([f'{self.sweeps} sweeps', *held])})"


def relay(
    code: Code,
    legs: int,
    sweeps: int,
    *,
    first_sweeps: int | None = None,
    first_memory: float = 0.125,
    interval: tuple[float, float] = (-0.24, 0.66),
    seed: int = 0,
) -> list[Leg]:
    """Legs of a relay (Müller et al. 2025): one with the same memory for all bits, then ``legs`` with strengths drawn
    from ``interval``, each from the beliefs that the last one left.

    >>> [leg.sweeps for leg in relay(Code.of([[1, 1]], 0.1), 2, 60, first_sweeps=80)]
    [80, 60, 60]
    """
    low, high = interval
    if not low <= high < 1:
        raise ValueError(f"the interval of memory strengths must rise and end below 1, not {interval!r}")
    checked_whole("legs", legs, 0)
    random = np.random.default_rng(seed)
    found = [Leg(code, sweeps if first_sweeps is None else first_sweeps, memory=first_memory)]
    return found + [Leg(code, sweeps, memory=random.uniform(low, high, code.bits)) for _ in range(legs)]


def _strengths(given: ArrayLike, bits: int) -> Tensor:
    array = checked_array("memory", given).astype(np.float64)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != bits):
        raise ValueError(f"memory is of shape {array.shape}; give one strength, or one for each of {bits} bits")
    if not (np.isfinite(array).all() and (array < 1).all()):
        raise ValueError("strengths of memory must be finite and below 1")
    return torch.tensor(np.broadcast_to(array, (bits,)).copy(), dtype=torch.float32)


def _order(given: ArrayLike | None, checks: int) -> NDArray[np.int64] | None:
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or not np.array_equal(np.sort(array, axis=None), np.arange(checks)):
        raise ValueError(f"order must be the numbers from 0 to {checks - 1}, each once")
    return array.astype(np.int64)


def _ties(given: ArrayLike | None, edges: int) -> Tensor | None:
    if given is None:
        return None
    array = np.asarray(given)
    if array.shape != (edges,) or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= edges:
        raise ValueError(f"edge_ties must be whole numbers from 0, one for each of {edges} edges")
    return torch.tensor(array.astype(np.int64))
