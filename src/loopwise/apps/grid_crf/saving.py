"""A trained grid model in one file.

In: a fitted model, a path. Out: weights as tensors, everything else as JSON, in one safetensors file. Stage: use.
Loading runs nothing that the file says: it can only name the classes listed here and in :mod:`loopwise.learn.known`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from loopwise.apps.grid_crf.pair import ContrastPair, TiedPair
from loopwise.apps.grid_crf.unary import AffineUnary, ConvUnary
from loopwise.apps.saved import read_saved
from loopwise.formats.files import PathLike
from loopwise.graph.builders import grid
from loopwise.learn.container import write_container
from loopwise.learn.describe import Builder, Describer

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
    return read_saved(path, APP, lambda tensors, told: (_build(kind, tensors, told), dict(told["notes"])))


def _build(kind: type[GridCRF], tensors: dict[str, Tensor], description: dict[str, Any]) -> GridCRF:
    unary, pair = _build_module(description["unary"]), _build_module(description["pair"])
    inference = Builder(grid(1, 1), tensors).build(description["inference"])
    model = kind(
        states=int(description["states"]),
        neighbours=int(description["neighbours"]),
        unary=unary,
        pair=pair,
        inference=inference,
    )
    potentials = model.begin(int(description["channels"]))
    potentials.load_state_dict({name: tensors[name] for name in potentials.state_dict()})
    return model


def _describe_module(part: str, module: nn.Module) -> dict[str, Any]:
    name = type(module).__name__
    if name not in _MODULES or type(module) is not _MODULES[name][0]:
        raise ValueError(
            f"a model whose {part} part is of class {name} cannot be saved, since loading would have to run code that "
            "is not loopwise's: save potentials_.state_dict() instead, and load it into a model that you build"
        )
    return {"class": name, "options": {key: getattr(module, own) for key, own in _MODULES[name][1].items()}}


def _build_module(json: dict[str, Any]) -> nn.Module:
    if json["class"] not in _MODULES:
        raise ValueError(f"it names a class {json['class']!r} that this version of loopwise does not know")
    return _MODULES[json["class"]][0](**json["options"])
