"""What a file keeps of a trained parser.

In: a parser. Out: weights as tensors, everything else as JSON; and back. Stage: use.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.parser.arcs import Pruner
from loopwise.apps.parser.fitting import Pieces
from loopwise.apps.parser.labels import Labeller
from loopwise.apps.parser.model import TreeModel
from loopwise.apps.parser.options import LARGEST_TABLE, ParserStructure, Pruning, Templates
from loopwise.apps.parser.vocabulary import RESERVED, TAG_LIMIT, WORD_LIMIT, ParserVocabulary
from loopwise.inference.base import Inference
from loopwise.inference.exact.method import Exact
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.files.fields import (
    DAMAGE,
    FieldError,
    OtherVersionError,
    Record,
    check_counts,
    check_options,
    shown,
)
from loopwise.learn.history import History
from loopwise.learn.optim.hashed import Floats, pack, unpack

if TYPE_CHECKING:
    from loopwise.apps.parser.estimator import Parser

P = TypeVar("P", bound="Parser")
T = TypeVar("T", Pruning, Templates)


def kept(parser: Parser) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of a trained parser, and its tensors; weights that are 0 take no room."""
    pruner, model, labeller = parser.pruner, parser.model, parser.labeller
    tensors = {"longest": torch.from_numpy(pruner.longest)}
    _put(tensors, "trees", model.weights)
    if pruner.weights is not None:
        _put(tensors, "pruning", pruner.weights)
    if labeller is not None and labeller.weights is not None:
        _put(tensors, "relations", labeller.weights)
        tensors["allowed_start"] = torch.from_numpy(labeller.allowed_start)
        tensors["allowed"] = torch.from_numpy(labeller.allowed)
    description = {
        "kind": "parser",  # by which earlier versions know the file
        "structure": dataclasses.asdict(parser.structure),
        "inference": _inference_json(parser.inference),
        "templates": dataclasses.asdict(model.templates),
        "template_version": model.templates.version,
        "pruning": None if parser.pruning is None else dataclasses.asdict(parser.pruning),
        "relations": None if labeller is None else dataclasses.asdict(labeller.templates),
        "vocabulary": parser.vocabulary.to_json(),
        "history": parser.history.without_times().to_json(),
    }
    return description, tensors


def rebuilt(kind: type[P], told: Record) -> P:
    """The trained parser of a file."""
    if "template_version" not in told or told.raw("template_version") != Templates().version:
        raise OtherVersionError("this parser has features of another version of loopwise; train it again")
    given = told.record("structure")
    structure = ParserStructure.of(given.texts("factors"), given.flag("projective"), given.flag("single_root"))
    pruning = told.maybe("pruning", lambda record, name: _options(Pruning, record.record(name)))
    templates = _options(Templates, told.record("templates"))
    parser = kind(
        structure.factors, _inference_of(told.record("inference")), projective=structure.projective,
        single_root=structure.single_root, templates=templates, pruning=pruning,
    )  # fmt: skip
    vocabulary = _vocabulary(told.record("vocabulary"))
    history = _history(told)
    lengths = (vocabulary.coarse_tags, vocabulary.coarse_tags, 2)
    longest = told.integers("longest", lengths, -LARGEST_TABLE, LARGEST_TABLE, np.int32)
    weights = None if pruning is None else _get(told, "pruning", pruning.size)
    pruner = Pruner(longest, pruning, weights)
    labeller = told.maybe("relations", lambda record, name: _labeller(record.record(name), vocabulary))
    model = TreeModel(_get(told, "trees", templates.size), templates, structure, parser._run)
    parser._vocabulary = vocabulary
    parser._pieces = Pieces(pruner, model, labeller, history)
    return parser


def _options(kind: type[T], told: Record) -> T:
    """Options of a dataclass; a size of weights is at most what kernels can index (the class says so)."""
    size = told.whole("size", 1, LARGEST_TABLE)
    others = {name: value for name, value in told.values.items() if name != "size"}
    check_options(kind, others, told.path)
    return kind(size=size, **others)


def _vocabulary(told: Record) -> ParserVocabulary:
    for kind, limit in (("words", WORD_LIMIT), ("prefixes", WORD_LIMIT), ("fine", TAG_LIMIT), ("coarse", TAG_LIMIT)):
        if len(told.texts(kind, distinct=True)) > limit - RESERVED:
            raise FieldError(told.name(kind), f"lists more than the {limit - RESERVED} names that features tell apart")
    told.texts("relations", distinct=True)
    return ParserVocabulary.from_json(told.values)


def _labeller(told: Record, vocabulary: ParserVocabulary) -> Labeller:
    """With the relations that kernels look up by pairs of tags."""
    options, size = _options(Templates, told), vocabulary.coarse_tags
    allowed = told.integers("allowed", (None,), 0, len(vocabulary.relations) - 1, np.int32)
    start = told.integers("allowed_start", (size**2 + 1,), 0, len(allowed))
    if start[0] != 0 or start[-1] != len(allowed) or not (start[1:] > start[:-1]).all():
        raise ValueError("the tensor 'allowed_start' does not list the relations of each pair of tags")
    return Labeller(options, start, allowed, _get(told, "relations", options.size))


def _history(told: Record) -> History:
    try:
        return History.from_json(told.record("history").values)
    except DAMAGE as problem:
        raise FieldError("history", f"is no history of training ({shown(str(problem))})") from None


def _put(tensors: dict[str, Tensor], name: str, weights: Floats) -> None:
    for part, tensor in pack(weights).items():
        tensors[f"{name}.{part}"] = tensor


def _get(told: Record, name: str, size: int) -> Floats:
    """Weights that :func:`_put` put; where only those that are not 0 are listed, they are what the file holds."""
    if f"{name}.all" in told.tensors:
        return told.weights(f"{name}.all", (size,), np.float32)
    rows = told.integers(f"{name}.rows", (None,), 0, size - 1)
    values = told.weights(f"{name}.values", rows.shape, np.float32)
    try:
        return unpack({"rows": torch.from_numpy(rows), "values": torch.from_numpy(values)}, size)
    except MemoryError:
        raise ValueError(
            f"the table {name!r} is said to have {size} weights, for which memory does not suffice"
        ) from None


def _inference_json(inference: Inference) -> dict[str, Any]:
    if isinstance(inference, BP):
        json = {"iterations": inference.iterations, "tolerance": inference.tolerance}
        check_counts(BP, json, "inference")
        return json
    return {"exact": True}


def _inference_of(told: Record) -> Inference:
    if "exact" in told and told.flag("exact"):
        return Exact()
    return BP(iterations=told.whole("iterations", 1), tolerance=told.number("tolerance", 0))
