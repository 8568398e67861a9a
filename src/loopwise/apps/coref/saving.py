"""A trained coreference model in one file.

In: a fitted model, a path. Out: weights and document frequencies as tensors, types and options of the search as JSON,
in one safetensors file; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.set_templates import PREDICATES
from loopwise.apps.coref.similarity import TABLE, Frequencies
from loopwise.apps.saved import read_saved
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container
from loopwise.walk import Cooling, Sweeps
from loopwise.walk.plan import Steps

if TYPE_CHECKING:
    from loopwise.apps.coref.estimator import Coref

APP = "Coref"


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
    write_container(path, tensors, description)


def load(kind: type[Coref], path: PathLike) -> Coref:
    """The model of a file, fitted."""
    return read_saved(path, APP, partial(_build, kind))


def _build(kind: type[Coref], tensors: dict[str, Tensor], description: dict[str, Any]) -> Coref:
    counts = tensors["frequencies"].numpy().astype(np.float64)
    if counts.shape != (TABLE,):
        raise ValueError(f"the document frequencies are of shape {counts.shape}; they must be ({TABLE},)")
    types = tuple(map(str, description["types"]))
    frequencies = Frequencies(counts, int(description["documents"]))
    featuriser = Featuriser(types, frequencies, bool(description["setwise"]))
    for name, own in (
        ("templates", [template.name for template in featuriser.templates]),
        ("predicates", [predicate.name for predicate in PREDICATES]),
    ):
        if list(description[name]) != own:
            raise ValueError(f"its {name} are not those of this version; train it again")
    weights = tensors["weights"].numpy().astype(np.float64)
    size = featuriser.model().size
    if weights.shape != (size,):
        raise ValueError(f"the weights are of shape {weights.shape}; they must be ({size},)")
    first, last = description["cooling"]
    coref = kind(
        decode_steps=_steps(description["decode_steps"]),
        cooling=Cooling(float(first), float(last)),
        restarts=int(description["restarts"]),
        setwise=featuriser.setwise,
        types=bool(types),
        seed=int(description["seed"]),
    )
    coref.featuriser_, coref.weights_ = featuriser, weights
    return coref


def _steps_json(steps: Steps) -> dict[str, int]:
    return {"sweeps": steps.count} if isinstance(steps, Sweeps) else {"steps": int(steps)}


def _steps(json: dict[str, int]) -> Steps:
    return Sweeps(int(json["sweeps"])) if "sweeps" in json else int(json["steps"])
