"""A trained chain model of feature vectors in one file.

In: a fitted model, a path. Out: weights and scales as tensors, classes and the decoder as JSON, in one safetensors
file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.saved import read_saved, written
from loopwise.apps.tagger.problem import Weights
from loopwise.apps.tagger.saving import describe_decoder, read_decoder
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container

if TYPE_CHECKING:
    from loopwise.apps.chain_crf.estimator import ChainCRF

APP = "ChainCRF"


def save(model: ChainCRF, path: PathLike) -> None:
    """Writes a fitted model. How it was trained is kept as text: a loaded model has the default options for that."""
    names = getattr(model, "feature_names_in_", None)
    description = {
        "app": APP,
        "classes": model.classes_.tolist(),
        "type": model.classes_.dtype.str,
        "flat": model._flat,
        "features": model.n_features_in_,
        "names": None if names is None else names.tolist(),
        "standardize": bool(model.standardize),
        "decoder": describe_decoder(model.decoder_),
        "trained": written(model),
    }
    tensors = {
        "unary": torch.from_numpy(model.weights_.unary),
        "pair": torch.from_numpy(model.weights_.pair),
        "centre": torch.from_numpy(model.scaling_.centre),
        "spread": torch.from_numpy(model.scaling_.spread),
    }
    write_container(path, tensors, description)


def load(kind: type[ChainCRF], path: PathLike) -> ChainCRF:
    """The model of a file, fitted."""
    return read_saved(path, APP, partial(_build, kind))


def _build(kind: type[ChainCRF], tensors: dict[str, Tensor], description: dict[str, Any]) -> ChainCRF:
    labels = np.dtype(str(description["type"]))
    if labels.kind not in "biufU":
        raise ValueError(f"classes are of type {labels}, which no label has")
    classes, features = np.array(description["classes"], dtype=labels), int(description["features"])
    shapes = {
        "unary": (features + 1, len(classes)),
        "pair": (1, len(classes) ** 2),
        "centre": (features,),
        "spread": (features,),
    }
    arrays = {name: tensors[name].double().numpy() for name in shapes}
    for name, wanted in shapes.items():
        if arrays[name].shape != wanted:
            raise ValueError(f"the tensor {name!r} is of shape {arrays[name].shape}; it must be {wanted}")
    model = kind(decoder=read_decoder(description["decoder"]), standardize=bool(description["standardize"]))
    vector = np.concatenate([arrays["unary"].reshape(-1), arrays["pair"].reshape(-1)])
    model.weights_ = Weights.of_vector(vector, features + 1, 1, len(classes))
    model.scaling_ = Scaling(arrays["centre"], arrays["spread"])
    model.classes_, model._flat, model.n_features_in_ = classes, bool(description["flat"]), features
    if description["names"] is not None:
        model.feature_names_in_ = np.array(list(map(str, description["names"])), dtype=object)
    return model
