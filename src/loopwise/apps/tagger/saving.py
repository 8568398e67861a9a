"""A trained tagger in one file.

In: a fitted tagger, a path. Out: weights and feature keys as tensors, templates, tags and options as JSON, in one
safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from loopwise.apps.saved import read_saved, written
from loopwise.apps.tagger.decoding import Decoder, Posterior, Viterbi
from loopwise.apps.tagger.feature_index import FeatureIndex, Hashed, Indexed
from loopwise.apps.tagger.problem import Weights
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container
from loopwise.learn.fields import LARGEST, Record

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


def _build(kind: type[Tagger], told: Record) -> Tagger:
    tagger = kind(
        templates=told.text("templates"),
        step_templates=told.text("step_templates"),
        minimum_count=told.whole("minimum_count", 1),
        hashing=told.maybe("hashing", lambda record, name: record.whole(name, 1, LARGEST)),
        decoder=read_decoder(told.record("decoder")),
    )
    tagger.labels_ = told.texts("labels", distinct=True)
    tagger.unary_index_, tagger.step_index_ = (_index(name, told, tagger.hashing) for name in _INDICES)
    states = len(tagger.labels_)
    unary = told.weights("unary", (tagger.unary_index_.size, states))
    pair = told.weights("pair", (tagger.step_rows, states * states))
    vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
    tagger.weights_ = Weights.of_vector(vector, len(unary), len(pair), states)
    return tagger


def _index(name: str, told: Record, size: int | None) -> FeatureIndex:
    return Indexed(told.integers(f"{name}_keys", (None,)).view(np.uint64)) if size is None else Hashed(size)


def describe_decoder(decoder: Decoder) -> dict[str, Any]:
    """JSON for a decoder of chains, if it is one of ours."""
    name = type(decoder).__name__
    if type(decoder) is not _DECODERS.get(name):
        raise ValueError(
            f"a model with a decoder of class {name} cannot be saved, since loading would have to run code that is not "
            "loopwise's; set decoder to Viterbi() or Posterior() before saving"
        )
    return {"class": name, "valid": decoder.valid}


def read_decoder(told: Record) -> Decoder:
    """What :func:`describe_decoder` described."""
    return _DECODERS[told.choice("class", _DECODERS)](valid=told.flag("valid"))
