"""A trained chain model of feature vectors in one file.

In: a fitted model, a path. Out: weights and scales as tensors, classes and the decoder as JSON, in one safetensors
file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from loopwise.apps.multilabel.scaling import Scaling
from loopwise.apps.saved import read_saved, written
from loopwise.apps.tagger.problem import Weights
from loopwise.apps.tagger.saving import describe_decoder, read_decoder
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container
from loopwise.learn.fields import LARGEST, FieldError, Record

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


def _build(kind: type[ChainCRF], told: Record) -> ChainCRF:
    classes, features = told.classes("classes", "type"), told.whole("features", 0, LARGEST)
    unary, pair = told.weights("unary", (features + 1, len(classes))), told.weights("pair", (1, len(classes) ** 2))
    scaling = Scaling.read(told, features)
    model = kind(decoder=read_decoder(told.record("decoder")), standardize=told.flag("standardize"))
    model.weights_ = Weights.of_vector(
        np.concatenate([unary.reshape(-1), pair.reshape(-1)]), features + 1, 1, len(classes)
    )
    model.scaling_ = scaling
    model.classes_, model._flat, model.n_features_in_ = classes, told.flag("flat"), features
    names = told.maybe("names", Record.texts)
    if names is not None:
        if len(names) != features:
            raise FieldError("names", f"lists {len(names)} names of {features} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
