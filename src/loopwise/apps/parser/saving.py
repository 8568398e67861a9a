"""A trained parser as one file, and back.

In: a parser, a path. Out: weights as tensors, everything else as JSON, in one safetensors file. Stage: use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from loopwise.apps.parser.arcs import Pruner
from loopwise.apps.parser.fitting import Pieces
from loopwise.apps.parser.labels import Labeller
from loopwise.apps.parser.options import Pruning, Structure, Templates
from loopwise.apps.parser.parser import Parser
from loopwise.apps.parser.parsing import Model
from loopwise.apps.parser.table import Floats, pack, unpack
from loopwise.apps.parser.vocabulary import Vocabulary
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.inference.base import Inference
from loopwise.inference.exact import Exact
from loopwise.inference.message_passing import BP
from loopwise.learn.container import read_container, refuse_kind, write_container
from loopwise.learn.history import History

KIND = "parser"


def save(parser: Parser, path: PathLike) -> None:
    """Writes a trained parser; weights that are 0 take no room."""
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
        "kind": KIND,
        "structure": dataclasses.asdict(parser.structure),
        "inference": _inference_json(parser.inference),
        "templates": dataclasses.asdict(model.templates),
        "template_version": model.templates.version,
        "pruning": None if parser.pruning is None else dataclasses.asdict(parser.pruning),
        "relations": None if labeller is None else dataclasses.asdict(labeller.templates),
        "vocabulary": parser.vocabulary.to_json(),
        "history": parser.history.without_times().to_json(),
    }
    write_container(path, tensors, description)


def load(path: PathLike) -> Parser:
    """The parser of a file. The file can only hold numbers and names: nothing in it is run."""
    tensors, description = read_container(path)
    if description.get("kind") != KIND:
        raise refuse_kind(path, description, "Parser")
    if description.get("template_version") != Templates().version:
        raise FormatError(
            display_name(path), None, "this parser has features of another version of loopwise; train it again"
        )
    try:
        return _build(tensors, description)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as problem:
        reason = f"there is no {problem.args[0]!r}" if isinstance(problem, KeyError) else " ".join(str(problem).split())
        raise FormatError(
            display_name(path), None, f"the description of the parser in the file is damaged: {reason}"
        ) from None


def _build(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Parser:
    given = dict(description["structure"])
    structure = Structure.of(tuple(given["factors"]), bool(given["projective"]), bool(given["single_root"]))
    pruning = None if description["pruning"] is None else Pruning(**description["pruning"])
    templates = Templates(**description["templates"])
    parser = Parser(
        structure.factors, _inference_of(description["inference"]), projective=structure.projective,
        single_root=structure.single_root, templates=templates, pruning=pruning,
    )  # fmt: skip
    weights = None if pruning is None else _get(tensors, "pruning", pruning.size)
    pruner = Pruner(tensors["longest"].numpy().copy(), pruning, weights)
    labeller = None
    if description["relations"] is not None:
        options = Templates(**description["relations"])
        start, allowed = tensors["allowed_start"].numpy().copy(), tensors["allowed"].numpy().copy()
        labeller = Labeller(options, start, allowed, _get(tensors, "relations", options.size))
    model = Model(_get(tensors, "trees", templates.size), templates, structure, parser._run)
    parser._vocabulary = Vocabulary.from_json(description["vocabulary"])
    _check(parser._vocabulary, pruner, labeller)
    parser._pieces = Pieces(pruner, model, labeller, History.from_json(description["history"]))
    return parser


def _check(vocabulary: Vocabulary, pruner: Pruner, labeller: Labeller | None) -> None:
    """Sizes that kernels rely on."""
    size = vocabulary.coarse_tags
    if pruner.longest.shape != (size, size, 2):
        raise ValueError(f"lengths of arcs are of shape {pruner.longest.shape}, not {(size, size, 2)}")
    if labeller is not None:
        start, allowed = labeller.allowed_start, labeller.allowed
        sizes = start.shape == (size**2 + 1,) and start[0] == 0 and start[-1] == len(allowed)
        if not (sizes and (start[1:] > start[:-1]).all()):
            raise ValueError("relations of tags are not listed as they should be")
        if allowed.min() < 0 or allowed.max() >= len(vocabulary.relations):
            raise ValueError("a relation has no name")


def _put(tensors: dict[str, Tensor], name: str, weights: Floats) -> None:
    for part, tensor in pack(weights).items():
        tensors[f"{name}.{part}"] = tensor


def _get(tensors: Mapping[str, Tensor], name: str, size: int) -> Floats:
    mine = {key.removeprefix(f"{name}."): tensor for key, tensor in tensors.items() if key.startswith(f"{name}.")}
    return unpack(mine, size)


def _inference_json(inference: Inference) -> dict[str, Any]:
    if isinstance(inference, BP):
        return {"iterations": inference.iterations, "tolerance": inference.tolerance}
    return {"exact": True}


def _inference_of(json: Mapping[str, Any]) -> Inference:
    if json.get("exact"):
        return Exact()
    return BP(iterations=int(json["iterations"]), tolerance=float(json["tolerance"]))
