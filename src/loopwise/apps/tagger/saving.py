"""A trained tagger in one file.

In: a fitted tagger, a path. Out: weights and feature keys as tensors, templates, tags and options as JSON, in one
safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.saved import read_saved, written
from loopwise.apps.tagger.decoding import Decoder, Posterior, Viterbi
from loopwise.apps.tagger.feature_index import FeatureIndex, Hashed, Indexed
from loopwise.apps.tagger.problem import Weights
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container

if TYPE_CHECKING:
    from loopwise.apps.tagger.estimator import Tagger

APP = "Tagger"
_DECODERS: dict[str, type[Viterbi] | type[Posterior]] = {"Viterbi": Viterbi, "Posterior": Posterior}
_INDICES = ("unary", "step")


def save(tagger: Tagger, path: PathLike) -> None:
    """Writes a fitted tagger. How it was trained is kept as text: a loaded tagger has the default learner."""
    weights = tagger.weights_
    tensors = {"unary": torch.from_numpy(weights.unary), "pair": torch.from_numpy(weights.pair)}
    for name, index in zip(_INDICES, (tagger.unary_index_, tagger.step_index_), strict=True):
        if isinstance(index, Indexed):
            tensors[f"{name}_keys"] = torch.from_numpy(index.keys.view(np.int64))
    description = {
        "app": APP,
        "templates": tagger.templates,
        "step_templates": tagger.step_templates,
        "minimum_count": tagger.minimum_count,
        "hashing": tagger.hashing,
        "labels": list(tagger.labels_),
        "decoder": describe_decoder(Viterbi() if tagger.decoder is None else tagger.decoder),
        "trained": written(tagger.learner),
    }
    write_container(path, tensors, description)


def load(kind: type[Tagger], path: PathLike) -> Tagger:
    """The tagger of a file, fitted."""
    return read_saved(path, APP, partial(_build, kind))


def _build(kind: type[Tagger], tensors: dict[str, Tensor], description: dict[str, Any]) -> Tagger:
    hashing = description["hashing"]
    tagger = kind(
        templates=str(description["templates"]),
        step_templates=str(description["step_templates"]),
        minimum_count=int(description["minimum_count"]),
        hashing=None if hashing is None else int(hashing),
        decoder=read_decoder(description["decoder"]),
    )
    tagger.labels_ = tuple(map(str, description["labels"]))
    tagger.unary_index_, tagger.step_index_ = (_index(name, tensors, tagger.hashing) for name in _INDICES)
    unary, pair = tensors["unary"].numpy(), tensors["pair"].numpy()
    states = len(tagger.labels_)
    for name, table, wanted in (
        ("unary", unary, (tagger.unary_index_.size, states)),
        ("pair", pair, (tagger.step_rows, states * states)),
    ):
        if table.shape != wanted:
            raise ValueError(f"the weights {name!r} are of shape {table.shape}; they must be {wanted}")
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    tagger.weights_ = Weights.of_vector(vector, len(unary), len(pair), states)
    return tagger


def _index(name: str, tensors: dict[str, Tensor], size: int | None) -> FeatureIndex:
    return Indexed(tensors[f"{name}_keys"].numpy().view(np.uint64)) if size is None else Hashed(size)


def describe_decoder(decoder: Decoder) -> dict[str, Any]:
    """JSON for a decoder of chains, if it is one of ours."""
    name = type(decoder).__name__
    if type(decoder) is not _DECODERS.get(name):
        raise ValueError(
            f"a model with a decoder of class {name} cannot be saved, since loading would have to run code that is not "
            "loopwise's; set decoder to Viterbi() or Posterior() before saving"
        )
    return {"class": name, "valid": decoder.valid}


def read_decoder(json: dict[str, Any]) -> Decoder:
    """What :func:`describe_decoder` described."""
    if json["class"] not in _DECODERS:
        raise ValueError(f"it names a decoder {json['class']!r} that this version of loopwise does not know")
    return _DECODERS[json["class"]](valid=bool(json["valid"]))
