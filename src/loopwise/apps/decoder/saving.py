"""What a file keeps of a decoder.

In: a decoder. Out: checks, priors and numbers as tensors, settings as JSON; and back. Stage: use.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.decoder.code import Code, checked_priors
from loopwise.apps.decoder.legs import MOST_MEMORY, Leg
from loopwise.apps.decoder.rules import MinSum, Rule, SumProduct
from loopwise.inference.families.parity import ParityChecks
from loopwise.inference.families.second_stage import OSD, Decimation, Second
from loopwise.learn.files.fields import LARGEST, FieldError, Record

if TYPE_CHECKING:
    from loopwise.apps.decoder.decoder import Decoder

D = TypeVar("D", bound="Decoder")
_RULES: dict[str, type[Any]] = {"SumProduct": SumProduct, "MinSum": MinSum}
_NUMBERS = ("edge", "sweep", "memory", "prior")


def kept(decoder: Decoder) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of a decoder, and its tensors; equal decoders give equal files."""
    code = decoder.code
    tensors: dict[str, Tensor] = {
        "code.start": torch.from_numpy(code.checks.start),
        "code.variable": torch.from_numpy(code.checks.variable),
        "code.priors": torch.from_numpy(code.priors),
        "code.silent": torch.from_numpy(code.silent),
    }
    if code.detectors is not None:
        tensors["code.detectors"] = torch.from_numpy(code.detectors)
    if code.observables is not None:
        tensors["code.observables.start"] = torch.from_numpy(code.observables.indptr.astype(np.int64))
        tensors["code.observables.bits"] = torch.from_numpy(code.observables.indices.astype(np.int64))
    legs = []
    for number, leg in enumerate(decoder.legs):
        held = [name for name in _NUMBERS if getattr(leg, name) is not None]
        for name in held:
            tensors[f"legs.{number}.{name}"] = getattr(leg, name).detach()
        if leg.edge_ties is not None:
            tensors[f"legs.{number}.edge_ties"] = leg.edge_ties
        if leg.order is not None:
            tensors[f"legs.{number}.order"] = torch.from_numpy(leg.order)
        told = {"tied": leg.edge_ties is not None, "ordered": leg.order is not None}
        legs.append({"sweeps": leg.sweeps, "resumes": leg.resumes, "numbers": held, **told})
    description = {
        "bits": code.bits,
        "detectors": code.detector_count,
        "chosen": code.detectors is not None,
        "observables": code.observables is not None,
        "rule": {"class": type(decoder.rule).__name__, "options": asdict(decoder.rule)},
        "layered": decoder.layered,
        "double": decoder.double,
        "solutions": decoder.solutions,
        "budget": decoder.budget,
        "distance": decoder.distance,
        "stops": decoder.stops,
        "second": None
        if decoder.second is None
        else {"class": type(decoder.second).__name__, **asdict(decoder.second)},
        "legs": legs,
    }
    return description, tensors


def rebuilt(kind: type[D], told: Record) -> D:
    """The decoder of a file."""
    code = _code(told)
    chosen = told.record("rule")
    options = chosen.record("options")
    rule: Rule = SumProduct()
    if chosen.choice("class", _RULES) == "MinSum":
        rule = MinSum(options.positive("scale"), options.number("offset", 0.0))
    second: Second | None = None
    if told.raw("second") is not None:
        stage = told.record("second")
        if stage.choice("class", ("OSD", "Decimation")) == "OSD":
            second = OSD(stage.whole("order", 0, 1000), stage.flag("exhaustive"))
        else:
            second = Decimation(stage.whole("rounds", 1), stage.number("share", 0.0, 1.0), stage.whole("sweeps", 1))
    legs = told.items("legs", lambda record, name: record.record(name))
    made = [_leg(told, code, number, leg) for number, leg in enumerate(legs)]
    return kind(
        code,
        rule=rule,
        layered=told.flag("layered"),
        legs=made,
        solutions=told.whole("solutions", 1),
        budget=_optional(told, "budget"),
        distance=_optional(told, "distance"),
        stops=told.flag("stops"),
        second=second,
        double=told.flag("double"),
    )


def _optional(told: Record, name: str) -> int | None:
    """A number that files of earlier versions do not have."""
    return told.maybe(name, lambda record, key: record.whole(key, 1)) if name in told else None


def _leg(told: Record, code: Code, number: int, record: Record) -> Leg:
    ties = None
    if record.flag("tied"):
        ties = told.integers(f"legs.{number}.edge_ties", (code.checks.edges,), 0, code.checks.edges - 1)
    order = None
    if "ordered" in record and record.flag("ordered"):  # files of earlier versions say nothing of it
        order = told.integers(f"legs.{number}.order", (code.checks.count,), 0, code.checks.count - 1)
    leg = Leg(code, record.whole("sweeps", 1), resumes=record.flag("resumes"), edge_ties=ties, order=order)
    tied = code.checks.edges if ties is None else int(ties.max()) + 1
    sizes = {"edge": tied, "sweep": leg.sweeps, "memory": code.bits, "prior": code.bits}
    for name in record.texts("numbers", distinct=True):
        if name not in sizes:
            raise FieldError(record.name("numbers"), f"names {name!r}, which no leg has")
        values = told.weights(f"legs.{number}.{name}", (sizes[name],), np.float32)
        if name == "memory" and not (values <= max(MOST_MEMORY, 1 - 1e-6)).all():
            raise ValueError(f"the tensor 'legs.{number}.memory' holds a strength that is not below 1")
        setattr(leg, name, torch.nn.Parameter(torch.from_numpy(values), requires_grad=False))
    return leg


def _code(told: Record) -> Code:
    from scipy.sparse import csr_matrix

    bits, detectors = told.whole("bits", 1, LARGEST), told.whole("detectors", 1, LARGEST)
    variable = told.integers("code.variable", (None,), 0, bits - 1)
    start = _starts(told, "code.start", len(variable), least=1)
    priors = checked_priors(told.weights("code.priors", (bits,)), bits)
    chosen = None
    if told.flag("chosen"):
        chosen = told.integers("code.detectors", (len(start) - 1,), 0, detectors - 1)
    observables = None
    if told.flag("observables"):
        seen = told.integers("code.observables.bits", (None,), 0, bits - 1)
        rows = _starts(told, "code.observables.start", len(seen))
        observables = csr_matrix((np.ones(len(seen), np.uint8), seen, rows), (len(rows) - 1, bits))
    silent = told.integers("code.silent", (None,), 0, detectors - 1)
    return Code(ParityChecks(bits, start, variable), priors, observables, chosen, detectors, silent)


def _starts(told: Record, name: str, end: int, least: int = 0) -> Any:
    """Where rows begin: rising from 0 to ``end``, each row with at least so many entries."""
    found = told.integers(name, (None,), 0, end)
    if len(found) < 2 or found[0] != 0 or found[-1] != end or (np.diff(found) < least).any():
        raise ValueError(f"the tensor {name!r} does not divide {end} entries into rows")
    return found
