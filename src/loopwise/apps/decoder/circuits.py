"""Codes from stim's circuits and detector error models, and shots of these.

In: a ``stim.Circuit`` or ``stim.DetectorErrorModel``, or a file of either. Out: a :class:`Code`, a sampler. Stage: use.
stim is imported here only, when it is asked for.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.shots import Shots
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, about_file, display_name, read_text
from loopwise.graph.factor_graph import Integers
from loopwise.inference.families.parity import ParityChecks


def stim_module() -> Any:
    """stim, or a sentence that says how to get it."""
    try:
        import stim
    except ImportError:
        raise ValueError("circuits need stim, which is not installed; pip install 'loopwise[decoder]'") from None
    return stim


def read_circuit(given: Any) -> Any:
    """A circuit, from a file if need be."""
    return _read(given, "Circuit", "circuit")


def read_model(given: Any) -> Any:
    """A detector error model, from a file if need be."""
    return _read(given, "DetectorErrorModel", "detector error model")


def _read(given: Any, kind: str, what: str) -> Any:
    stim = stim_module()
    if isinstance(given, getattr(stim, kind)):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise ValueError(f"a {what} of stim, or the path of one, is wanted, not {type(given).__name__}")
    path: PathLike = given
    try:
        return getattr(stim, kind)(read_text(path))
    except (ValueError, IndexError) as problem:
        if isinstance(problem, FormatError):
            raise
        raise FormatError(display_name(path), None, f"this is no {what} of stim ({_first_sentence(problem)})") from None


def _first_sentence(problem: Exception) -> str:
    """What stim says first; pages of advice follow."""
    return next(iter(str(problem).strip().splitlines()), "it does not say why")


def code_of_circuit(circuit: Any, detectors: ArrayLike | None = None) -> Code:
    """The code that a circuit's detectors make of its noise.

    Raises
    ------
    ValueError
        Where the circuit has no detectors, or no noise.
    """
    found = read_circuit(circuit)
    with about_file(circuit):
        if found.num_detectors == 0:
            raise ValueError(
                "the circuit has no detectors, so there is no syndrome to decode; add DETECTOR instructions"
            )
        try:
            model = found.detector_error_model()
        except ValueError as problem:
            raise ValueError(f"stim finds no detector error model of the circuit: {_first_sentence(problem)}") from None
        return code_of_model(model, detectors)


def code_of_model(model: Any, detectors: ArrayLike | None = None) -> Code:
    """The code of a detector error model: a bit for each set of detectors and observables that some mechanism flips;
    mechanisms that flip the same are one bit, on if an odd number of them is."""
    found = read_model(model)
    with about_file(model):
        return _code_of(found, detectors)


def _code_of(found: Any, detectors: ArrayLike | None) -> Code:
    from scipy.sparse import csr_matrix

    if found.num_detectors == 0:
        raise ValueError("the detector error model has no detectors, so there is no syndrome to decode")
    chosen = _chosen(detectors, found.num_detectors)
    merged: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    wanted = np.zeros(found.num_detectors, np.bool_)
    wanted[chosen] = True
    for instruction in found.flattened():
        if instruction.type != "error":
            continue
        seen: set[int] = set()
        flipped: set[int] = set()
        for target in instruction.targets_copy():
            if target.is_relative_detector_id() and wanted[target.val]:
                seen ^= {target.val}
            elif target.is_logical_observable_id():
                flipped ^= {target.val}
        probability = instruction.args_copy()[0]
        if probability == 0 or not (seen or flipped):
            continue
        key = tuple(sorted(seen)), tuple(sorted(flipped))
        before = merged.get(key, 0.0)
        merged[key] = before + probability - 2 * before * probability
    if not any(seen for seen, _ in merged):
        raise ValueError("the detector error model has no error that a detector sees; is the circuit without noise?")
    keys = sorted(merged)
    rows = np.array([detector for seen, _ in keys for detector in seen], dtype=np.int64)
    columns = np.repeat(np.arange(len(keys)), [len(seen) for seen, _ in keys])
    used = np.unique(rows)
    matrix = csr_matrix((np.ones(len(rows), np.uint8), (np.searchsorted(used, rows), columns)), (len(used), len(keys)))
    matrix.sort_indices()
    flips = [(observable, place) for place, (_, mine) in enumerate(keys) for observable in mine]
    places = np.array(flips, dtype=np.int64).reshape(-1, 2).T
    observables = csr_matrix((np.ones(len(flips), np.uint8), tuple(places)), (found.num_observables, len(keys)))
    return Code(
        ParityChecks(len(keys), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)),
        np.clip(np.array([merged[key] for key in keys]), 1e-15, 1 - 1e-15),
        observables if found.num_observables else None,
        used,
        found.num_detectors,
        np.setdiff1d(chosen, used),
    )


def _chosen(given: ArrayLike | None, count: int) -> Integers:
    if given is None:
        return np.arange(count)
    found = np.unique(np.asarray(given))
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found) or found[0] < 0 or found[-1] >= count:
        raise ValueError(f"detectors must be whole numbers from 0 to {count - 1}, those that are looked at")
    return found.astype(np.int64)


class CircuitShots:
    """Shots of a circuit: what its detectors saw, and what happened to its observables; the flips stay unknown."""

    def __init__(self, circuit: Any) -> None:
        self.circuit = read_circuit(circuit)

    def draw(self, count: int, random: np.random.Generator) -> Shots:
        """So many, with a seed drawn from ``random``."""
        sampler = self.circuit.compile_detector_sampler(seed=int(random.integers(2**62)))
        detectors, observables = sampler.sample(count, separate_observables=True)
        return Shots(detectors.astype(np.uint8), None, observables.astype(np.uint8))
