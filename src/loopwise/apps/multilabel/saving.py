"""A trained model of label sets in one file.

In: a fitted model, a path. Out: weights and scales as tensors, names, classes and the decoder as JSON, in one
safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.multilabel.arrays import Classes
from loopwise.apps.multilabel.decoding import Annealed, Automatic, ByBeliefs, Decoder, Enumeration
from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.multilabel.weights import LabelWeights, pair_count
from loopwise.apps.saved import read_saved, written
from loopwise.formats.files import PathLike
from loopwise.graph.builders import complete
from loopwise.learn.container import write_container
from loopwise.learn.describe import Builder, Describer
from loopwise.learn.fields import LARGEST, FieldError, Record, check_counts, check_options, shown

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
    return read_saved(path, APP, lambda told: (_build(kind, told), told.record("notes").values))


def _build(kind: type[MultiLabel], told: Record) -> MultiLabel:
    names, features = told.texts("labels"), told.whole("features", 0, LARGEST)
    pairs = told.items("classes", _classes)
    if len(pairs) != len(names) or not names:
        raise FieldError("classes", f"lists the classes of {len(pairs)} labels, of which {len(names)} have names")
    unary = told.weights("unary", (len(names), features + 1, 2))
    pair = told.weights("pair", (pair_count(len(names)), 2, 2))  # before anything is made for each pair of labels
    scaling, flat = Scaling.read(told, features), told.flag("flat")
    if flat and len(names) > 1:
        raise FieldError("flat", f"says that there is one label, but there are {len(names)}")
    decoder = _decoder(told.record("decoder"), Builder(complete(len(names)), told.tensors))
    model = kind(decoder=decoder, standardize=told.flag("standardize"))
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    model.weights_ = LabelWeights.of_vector(vector, len(names), features + 1)
    model.scaling_ = scaling
    model._classes = Classes(pairs, flat)
    model.classes_ = pairs[0] if model._classes.flat else list(pairs)
    model.label_names_, model.n_features_in_ = names, features
    return model


def _classes(told: Record, name: str) -> NDArray[Any]:
    """What 0 and 1 of a label stand for: one or two numbers, truth values or texts."""
    found = told.raw(name)
    kinds = {type(item) for item in found} if isinstance(found, list) else set()
    if len(kinds) != 1 or not kinds <= {bool, int, float, str} or not 1 <= len(set(found)) == len(found) <= 2:
        raise FieldError(told.name(name), f"must be one or two classes of one type, not {shown(found)}")
    made = np.array(found)
    if made.dtype.kind not in "biufU":
        raise FieldError(told.name(name), f"has a class that is too large a number, {shown(found)}")
    return made


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
    check_counts(type(decoder), options, "decoder")
    return {"class": name, "options": options}


def _decoder(told: Record, builder: Builder) -> Decoder:
    kind, given = _DECODERS[told.choice("class", _DECODERS)], told.record("options")
    options = dict(given.values)
    if "beliefs" in options:
        options["beliefs"] = _decoder(given.record("beliefs"), builder)
    if "inference" in options:
        options["inference"] = builder.build(options["inference"], given.name("inference"))
    check_options(kind, options, given.path)
    made: Decoder = kind(**options)
    return made
