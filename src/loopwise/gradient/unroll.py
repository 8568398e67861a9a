"""The exact gradient of the run that happened: its sweeps are undone one by one.

In: nothing. Out: :class:`Unroll` and its tapes. Stage: gradient (Stoyanov et al. 2011, section 3 and appendix). Valid
after any number of sweeps, converged or not; sweeps that were made are treated as a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loopwise.gradient.base import Gradient


class Tape:
    """How the messages of earlier sweeps are had again on the way back. All tapes give the same gradient up to
    rounding. (The residual schedule keeps its updates whichever is chosen.)"""


@dataclass(frozen=True)
class Store(Tape):
    """Every sweep is kept from the forward pass: fastest, memory sweeps x messages x examples."""


@dataclass(frozen=True)
class Recompute(Tape):
    """Nothing is kept; the backward pass runs a block of examples again and keeps that block's sweeps only: at most
    one more forward pass, memory sweeps x messages x (examples of a block)."""


@dataclass(frozen=True)
class Checkpoints(Tape):
    """Every k-th sweep is kept and the backward pass runs each stretch again: at most one more forward pass, memory
    (sweeps / k + k) x messages. ``every`` None takes k near the square root of the number of sweeps."""

    every: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"checkpoints must be at least 1 sweep apart, got every={self.every}")


@dataclass(frozen=True)
class Fitting(Tape):
    """:class:`Store` while all sweeps fit into ``limit`` bytes, else :class:`Recompute` if a block of examples does,
    else :class:`Checkpoints`."""

    limit: float = 256 * 2**20

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise ValueError(f"limit must be a positive number of bytes, got {self.limit}")


@dataclass(frozen=True)
class Unroll(Gradient):
    """Back-propagation through every sweep that was made (Stoyanov et al. 2011; equations: ERMA spec, section 4).

    Exact for truncated runs, any schedule, damping and temperature, and twice differentiable. Time: two to three times
    that of the run.

    Parameters
    ----------
    tape: which messages a run keeps for its backward (:class:`Store`, :class:`Recompute`, :class:`Checkpoints`); by
        default as many as fit.

    >>> import loopwise as lw
    >>> method = lw.BP(iterations=4, tolerance=0, gradient=Unroll())
    """

    tape: Tape = field(default_factory=Fitting)

    def __post_init__(self) -> None:
        if not isinstance(self.tape, Tape):
            raise ValueError(f"tape must be Store(), Recompute(), Checkpoints() or Fitting(), got {self.tape!r}")
