"""What a decoder is for: checks, how likely each flip is, what counts as a failure.

In: a check matrix, a stim circuit or detector error model. Out: a :class:`Code`. Stage: use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.arguments import checked_array
from loopwise.formats.check_matrix import read_check_matrix
from loopwise.formats.files import about_file
from loopwise.graph.factor_graph import Integers
from loopwise.inference.families.parity import Bits, ParityChecks
from loopwise.learn.files.checkpoint import checksum

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Code:
    """Checks on bits (or on mechanisms of error), probabilities of flips, and what is to be known of them.

    Parameters
    ----------
    checks: which bits each check has.
    priors: the probability that each bit is flipped, ``[bits]``, above 0 and below 1.
    observables: a matrix ``[observables, bits]``, SciPy's CSR: sums of flips that are to be right; None where every bit
        is to be.
    detectors: which bits of a syndrome, as it is given, the checks are; None for all in order.
    detector_count: how many bits a given syndrome has.
    silent: bits of a given syndrome that nothing sets: one that is on cannot be explained.

    >>> code = Code.of([[1, 1, 0], [0, 1, 1]], 0.1, observables=[[1, 0, 0]])
    >>> code
    Code(2 checks, 3 bits, 4 edges, 1 observables)
    """

    checks: ParityChecks
    priors: Floats
    observables: Any = None
    detectors: Integers | None = None
    detector_count: int = -1
    silent: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if self.detector_count < 0:
            object.__setattr__(self, "detector_count", self.checks.count)

    @staticmethod
    def of(matrix: Any, priors: ArrayLike, *, observables: Any = None) -> Code:
        """A code from a check matrix: a SciPy sparse matrix, rows of 0 and 1, or the path of a file
        (:func:`~loopwise.formats.check_matrix.read_check_matrix`).

        Raises
        ------
        ValueError
            Where a row is empty, an entry is not 0 or 1, or a prior is not a probability between 0 and 1.
        """
        with about_file(matrix):
            checks = _checks(_matrix(matrix, "the check matrix"))
        seen = None
        if observables is not None:
            with about_file(observables):
                seen = _matrix(observables, "the matrix of observables")
                if seen.shape[1] != checks.variables:
                    raise ValueError(
                        f"the matrix of observables has {seen.shape[1]} columns, one for each bit are "
                        f"{checks.variables}"
                    )
        return Code(checks, checked_priors(priors, checks.variables), seen)

    @property
    def bits(self) -> int:
        return self.checks.variables

    @cached_property
    def log_odds(self) -> Floats:
        """Of no flip against a flip."""
        found: Floats = np.log((1 - self.priors) / self.priors)  # to the last bit what ldpc begins with
        return found

    @property
    def fingerprint(self) -> str:
        """What tells this code's checks from another's."""
        sizes = np.array([self.bits, self.detector_count])
        where = np.zeros(0, np.int64) if self.detectors is None else self.detectors
        seen = [] if self.observables is None else [self.observables.indptr, self.observables.indices]
        arrays = [sizes, self.checks.start, self.checks.variable, where, *(one.astype(np.int64) for one in seen)]
        return f"{self.checks.count} x {self.bits}, {self.checks.edges} edges (checksum {checksum(*arrays)})"

    def with_priors(self, priors: ArrayLike) -> Code:
        """The same code under other probabilities."""
        return Code(
            self.checks,
            checked_priors(priors, self.bits),
            self.observables,
            self.detectors,
            self.detector_count,
            self.silent,
        )

    def syndromes(self, given: ArrayLike) -> tuple[Bits, NDArray[np.bool_]]:
        """Given syndromes ``[shots, detectors]`` as bits of the checks, and which shots have a bit on that nothing
        sets."""
        array = checked_array("a syndrome", given)
        if array.ndim != 2 or array.shape[1] != self.detector_count:
            raise ValueError(
                f"a syndrome of this code has {self.detector_count} bits; the array given is of shape {array.shape}"
            )
        if not ((array == 0) | (array == 1)).all():
            raise ValueError("the bits of a syndrome must be 0 or 1")
        bits = array.astype(np.uint8)
        mine = bits if self.detectors is None else bits[:, self.detectors]
        return np.ascontiguousarray(mine), np.asarray(bits[:, self.silent].any(1))

    def flips(self, errors: Bits) -> Bits:
        """What errors do to the observables, ``[shots, observables]``."""
        if self.observables is None:
            raise ValueError("this code has no observables; give their matrix as observables=")
        return np.asarray((self.observables.astype(np.int32) @ errors.T.astype(np.int32)).T % 2, dtype=np.uint8)

    def failures(self, errors: Bits, corrections: Bits) -> NDArray[np.bool_]:
        """Which corrections fail: leave a check or an observable wrong; without observables, any bit."""
        left = errors ^ corrections
        if self.observables is None:
            return np.asarray(left.any(1))
        return np.asarray(self.checks.syndromes(left).any(1) | self.flips(left).any(1))

    def __repr__(self) -> str:
        seen = "" if self.observables is None else f", {self.observables.shape[0]} observables"
        return f"Code({self.checks.count} checks, {self.bits} bits, {self.checks.edges} edges{seen})"


def checked_priors(given: ArrayLike, bits: int, what: str = "the prior") -> Floats:
    """Probabilities of flips, one each; ``what``: what messages call one."""
    try:
        priors = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"priors must be probabilities, one or one for each of {bits} bits, not {given!r}") from None
    if priors.ndim > 1 or (priors.ndim == 1 and len(priors) != bits):
        raise ValueError(f"priors are of shape {priors.shape}; give one probability, or one for each of {bits} bits")
    bad = np.flatnonzero(~((priors > 0) & (priors < 1)))
    if len(bad):
        whose = what if priors.ndim == 0 else f"{what} of bit {bad[0]}"
        raise ValueError(
            f"{whose} is {np.atleast_1d(priors)[bad[0]]:g}; it must be above 0 and below 1 (leave out bits that never "
            "flip)"
        )
    found: Floats = np.array(np.broadcast_to(priors, (bits,)))
    return found


def _matrix(given: Any, what: str) -> Any:
    from scipy.sparse import csr_matrix, issparse

    if isinstance(given, (str, os.PathLike)):
        return read_check_matrix(given)
    if not issparse(given):
        given = checked_array(what, given)
        if given.ndim != 2:
            raise ValueError(f"{what} must be two-dimensional, not of shape {given.shape}")
    elif given.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold numbers, not {given.dtype}")
    found = csr_matrix(given)
    found.sum_duplicates()
    found.eliminate_zeros()
    wrong = found.data[found.data != 1]
    if len(wrong):
        raise ValueError(f"{what} has an entry {wrong[0]}; entries must be 0 or 1")
    found.sort_indices()
    return found.astype(np.uint8)


def _checks(matrix: Any) -> ParityChecks:
    if 0 in matrix.shape:
        raise ValueError(f"the check matrix is of shape {matrix.shape}; give at least one row and one column")
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if len(empty):
        raise ValueError(f"row {empty[0]} of the check matrix is empty: it checks nothing; remove it")
    return ParityChecks(matrix.shape[1], matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
