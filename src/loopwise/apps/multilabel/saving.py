"""A trained model of label sets in one file.

In: a fitted model, a path. Out: weights and scales as tensors, names, classes and the decoder as JSON, in one
safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.multilabel.arrays import Classes
from loopwise.apps.multilabel.decoding import Annealed, Automatic, ByBeliefs, Decoder, Enumeration
from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.multilabel.weights import LabelWeights
from loopwise.apps.saved import read_saved, written
from loopwise.formats.files import PathLike
from loopwise.graph.builders import complete
from loopwise.learn.container import write_container
from loopwise.learn.describe import Builder, Describer

if TYPE_CHECKING:
    from loopwise.apps.multilabel.estimator import MultiLabel

APP = "MultiLabel"
_DECODERS = {kind.__name__: kind for kind in (Enumeration, Annealed, ByBeliefs, Automatic)}


def save(model: MultiLabel, path: PathLike, notes: dict[str, Any] | None) -> None:
    """Writes a fitted model. How it was trained is kept as text: a loaded model has the default learner."""
    describer = Describer(complete(model.weights_.labels), {})
    description = {
        "app": APP,
        "labels": list(model.label_names_),
        "classes": [pair.tolist() for pair in model._classes.pairs],
        "flat": model._classes.flat,
        "features": model.n_features_in_,
        "standardize": bool(model.standardize),
        "decoder": _describe(model.decoder_, describer),
        "trained": written(model._learner),
        "notes": notes or {},
    }
    tensors = {
        "unary": torch.from_numpy(model.weights_.unary),
        "pair": torch.from_numpy(model.weights_.pair),
        "centre": torch.from_numpy(model.scaling_.centre),
        "spread": torch.from_numpy(model.scaling_.spread),
        **describer.tensors,
    }
    write_container(path, tensors, description)


def load(kind: type[MultiLabel], path: PathLike) -> tuple[MultiLabel, dict[str, Any]]:
    """The model of a file, fitted, and its notes."""
    return read_saved(path, APP, lambda tensors, told: (_build(kind, tensors, told), dict(told["notes"])))


def _build(kind: type[MultiLabel], tensors: dict[str, Tensor], description: dict[str, Any]) -> MultiLabel:
    names, features = tuple(map(str, description["labels"])), int(description["features"])
    pairs = tuple(np.array(pair) for pair in description["classes"])
    if len(pairs) != len(names) or not all(1 <= len(pair) <= 2 for pair in pairs):
        raise ValueError(f"there are classes of {len(pairs)} labels, and {len(names)} names")
    vector = np.concatenate([tensors[name].double().reshape(-1).numpy() for name in ("unary", "pair")])
    centre, spread = (tensors[name].double().numpy() for name in ("centre", "spread"))
    if centre.shape != (features,) or spread.shape != (features,) or not (spread > 0).all():
        raise ValueError(f"the scales do not fit {features} features")
    decoder = _decoder(description["decoder"], Builder(complete(len(names)), tensors))
    model = kind(decoder=decoder, standardize=bool(description["standardize"]))
    model.weights_ = LabelWeights.of_vector(vector, len(names), features + 1)
    model.scaling_ = Scaling(centre, spread)
    model._classes = Classes(pairs, bool(description["flat"]))
    model.classes_ = pairs[0] if model._classes.flat else list(pairs)
    model.label_names_, model.n_features_in_ = names, features
    return model


def _describe(decoder: Decoder, describer: Describer) -> dict[str, Any]:
    name = type(decoder).__name__
    if type(decoder) is not _DECODERS.get(name):
        raise ValueError(
            f"a model with a decoder of class {name} cannot be saved, since loading would have to run code that is not "
            f"loopwise's; set decoder to one of {', '.join(_DECODERS)}"
        )
    options: dict[str, Any] = {}
    for field in dataclasses.fields(decoder):
        value = getattr(decoder, field.name)
        if isinstance(value, ByBeliefs):
            options[field.name] = _describe(value, describer)
        elif field.name == "inference":
            options[field.name] = describer.describe(value, "inference")
        else:
            options[field.name] = value
    return {"class": name, "options": options}


def _decoder(json: dict[str, Any], builder: Builder) -> Decoder:
    if json["class"] not in _DECODERS:
        raise ValueError(f"it names a decoder {json['class']!r} that this version of loopwise does not know")
    options = dict(json["options"])
    if "beliefs" in options:
        options["beliefs"] = _decoder(options["beliefs"], builder)
    if "inference" in options:
        options["inference"] = builder.build(options["inference"])
    made: Decoder = _DECODERS[json["class"]](**options)
    return made
