"""A trained coreference model in one file.

In: a fitted model, a path. Out: weights and document frequencies as tensors, types and options of the search as JSON,
in one safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.set_templates import PREDICATES
from loopwise.apps.coref.similarity import TABLE, Frequencies
from loopwise.apps.saved import read_saved
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container
from loopwise.learn.fields import LARGEST, FieldError, Record
from loopwise.walk import Cooling, Sweeps
from loopwise.walk.plan import Steps

if TYPE_CHECKING:
    from loopwise.apps.coref.estimator import Coref

APP = "Coref"
MOST_RESTARTS = 1000
MOST_STEPS = 100_000_000  # of a search: about a minute


def save(coref: Coref, path: PathLike) -> None:
    """Writes a fitted model. How it was trained is kept as text: a loaded model has the default learner."""
    featuriser = coref.featuriser_
    tensors = {
        "weights": torch.from_numpy(np.ascontiguousarray(coref.weights_)),
        "frequencies": torch.from_numpy(featuriser.frequencies.counts),
    }
    description = {
        "app": APP,
        "types": list(featuriser.types),
        "setwise": featuriser.setwise,
        "documents": featuriser.frequencies.documents,
        "templates": [template.name for template in featuriser.templates],
        "predicates": [predicate.name for predicate in PREDICATES],
        "decode_steps": _steps_json(coref.decode_steps),
        "cooling": [coref.cooling.first, coref.cooling.last],
        "restarts": coref.restarts,
        "seed": coref.seed,
        "trained": coref.way.name,
    }
    _steps(Record(description["decode_steps"], path="decode_steps"))  # as loading will
    Record(description).whole("restarts", 1, MOST_RESTARTS)
    write_container(path, tensors, description)


def load(kind: type[Coref], path: PathLike) -> Coref:
    """The model of a file, fitted."""
    return read_saved(path, APP, partial(_build, kind))


def _build(kind: type[Coref], told: Record) -> Coref:
    counts, documents = told.weights("frequencies", (TABLE,)), told.whole("documents", 1, LARGEST)
    if counts.min() < 0 or counts.max() > documents:
        raise ValueError(f"the tensor 'frequencies' counts {counts.min()} to {counts.max()} of {documents} documents")
    types = told.texts("types", distinct=True)
    featuriser = Featuriser(types, Frequencies(counts, documents), told.flag("setwise"))
    for name, own in (
        ("templates", [template.name for template in featuriser.templates]),
        ("predicates", [predicate.name for predicate in PREDICATES]),
    ):
        if told.texts(name) != tuple(own):
            raise FieldError(name, f"lists other {name} than this version has; train it again")
    weights = told.weights("weights", (featuriser.model().size,))
    temperatures = told.items("cooling", Record.positive)
    if len(temperatures) != 2:
        raise FieldError("cooling", f"must be a first and a last temperature, not {len(temperatures)} numbers")
    coref = kind(
        decode_steps=_steps(told.record("decode_steps")),
        cooling=Cooling(*temperatures),
        restarts=told.whole("restarts", 1, MOST_RESTARTS),
        setwise=featuriser.setwise,
        types=bool(types),
        seed=told.whole("seed", 0, LARGEST),
    )
    coref.featuriser_, coref.weights_ = featuriser, weights
    return coref


def _steps_json(steps: Steps) -> dict[str, int]:
    return {"sweeps": steps.count} if isinstance(steps, Sweeps) else {"steps": int(steps)}


def _steps(told: Record) -> Steps:
    return Sweeps(told.whole("sweeps", 1)) if "sweeps" in told else told.whole("steps", 1, MOST_STEPS)
