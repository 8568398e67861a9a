"""A trained grid model in one file.

In: a fitted model, a path. Out: weights as tensors, everything else as JSON, in one safetensors file. Stage: use.
Loading runs nothing that the file says: it can only name the classes listed here and in :mod:`loopwise.learn.known`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from loopwise.apps.grid_crf.pair import ContrastPair, TiedPair
from loopwise.apps.grid_crf.unary import AffineUnary, ConvUnary
from loopwise.apps.saved import read_saved
from loopwise.formats.files import PathLike
from loopwise.graph.builders import grid
from loopwise.inference.base import Inference
from loopwise.learn.container import write_container
from loopwise.learn.describe import Builder, Describer
from loopwise.learn.fields import FieldError, Record, check_options, check_shapes, check_weights, shown

if TYPE_CHECKING:
    from loopwise.apps.grid_crf.estimator import GridCRF

APP = "GridCRF"

# The modules that files may name, each with the attributes that make it again under the names of its arguments.
_MODULES: dict[str, tuple[Callable[..., nn.Module], dict[str, str]]] = {
    "AffineUnary": (AffineUnary, {"states": "states", "channels": "channels", "powers": "powers"}),
    "ConvUnary": (
        ConvUnary,
        {"states": "states", "channels": "channels", "hidden": "hidden", "kernel": "kernel", "seed": "seed"},
    ),
    "TiedPair": (TiedPair, {"states": "states", "directions": "directions"}),
    "ContrastPair": (ContrastPair, {"states": "states", "directions": "directions", "scale": "given_scale"}),
}


def save(model: GridCRF, path: PathLike, notes: dict[str, Any] | None = None) -> None:
    """Writes a fitted model; ``notes``: JSON to keep with it."""
    potentials = model.potentials_
    state = dict(potentials.state_dict())
    describer = Describer(grid(1, 1), {id(tensor): name for name, tensor in state.items()})
    description = {
        "app": APP,
        "states": model.states,
        "neighbours": model.neighbours,
        "channels": model.channels_,
        "unary": _describe_module("unary", potentials.unary),
        "pair": _describe_module("pair", potentials.pair),
        "inference": describer.describe(model.inference_, "inference"),
        "notes": notes or {},
    }
    write_container(path, {**describer.tensors, **state}, description)


def load(kind: type[GridCRF], path: PathLike) -> tuple[GridCRF, dict[str, Any]]:
    """The model of a file, fitted, and the notes kept with it."""
    return read_saved(path, APP, lambda told: (_build(kind, told), told.record("notes").values))


def _build(kind: type[GridCRF], told: Record) -> GridCRF:
    states, neighbours = told.whole("states", 2), told.whole("neighbours", 4, 8)
    channels = told.whole("channels", 1)
    unary, pair = (_build_module(told.record(name), name, states, channels) for name in ("unary", "pair"))
    check_weights({name: told.tensors[name] for name in told.tensors if name.startswith(("unary.", "pair."))})
    inference = Builder(grid(1, 1), told.tensors).build(told.raw("inference"), "inference")
    if not isinstance(inference, Inference):
        raise FieldError("inference", f"must describe an inference method, not {shown(inference)}")
    model = kind(states=states, neighbours=neighbours, unary=unary, pair=pair, inference=inference)
    potentials = model.begin(channels)
    potentials.load_state_dict({name: told.tensors[name] for name in potentials.state_dict()})
    return model


def _describe_module(part: str, module: nn.Module) -> dict[str, Any]:
    name = type(module).__name__
    if name not in _MODULES or type(module) is not _MODULES[name][0]:
        raise ValueError(
            f"a model whose {part} part is of class {name} cannot be saved, since loading would have to run code that "
            "is not loopwise's: save potentials_.state_dict() instead, and load it into a model that you build"
        )
    return {"class": name, "options": {key: getattr(module, own) for key, own in _MODULES[name][1].items()}}


def _build_module(told: Record, part: str, states: int, channels: int) -> nn.Module:
    """The module, untrained; that its weights are in the file was seen on one without memory first."""
    given = told.record("options")
    make = _MODULES[told.choice("class", _MODULES)][0]
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in given.values.items()}
    check_options(make, options, given.path)
    for name, wanted in (("states", states), ("channels", channels)):
        if options.get(name, wanted) != wanted:
            raise FieldError(given.name(name), f"is {options[name]}, but the model has {wanted} {name}")
    with torch.device("meta"):
        outline = make(**options).state_dict()
    check_shapes({f"{part}.{name}": tensor.shape for name, tensor in outline.items()}, told.tensors)
    return make(**options)
