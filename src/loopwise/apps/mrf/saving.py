"""A trained classifier of tables in one file: its system, and what its columns and classes stand for.

In: a fitted model, a path. Out: what :mod:`loopwise.learn.saving` writes of a system, with columns and classes as JSON
besides; and back. Stage: use. Loading runs nothing that the file says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwise.apps.mrf.answers import Answers
from loopwise.apps.mrf.columns import Column, Columns, Numbers, Texts
from loopwise.apps.saved import read_saved, written
from loopwise.formats.files import PathLike
from loopwise.learn.container import write_container
from loopwise.learn.fields import FieldError, Record
from loopwise.learn.saving import build_system, describe_system

if TYPE_CHECKING:
    from loopwise.apps.mrf.estimator import MRFClassifier

APP = "MRFClassifier"


def save(model: MRFClassifier, path: PathLike) -> None:
    """Writes a fitted model. How it was trained is kept as text: a loaded model has the default options for that."""
    tensors, description = describe_system(model.system_)
    answers = model._answers
    own = {
        "app": APP,
        "columns": [_describe_column(column) for column in model._columns.columns],
        "named": hasattr(model, "feature_names_in_"),
        "classes": [{"type": known.dtype.str, "labels": known.tolist()} for known in answers.classes],
        "flat": answers.flat,
        "outputs": list(answers.names),
        "trained": written(model),
    }
    write_container(path, tensors, {**description, **own})


def load(kind: type[MRFClassifier], path: PathLike) -> MRFClassifier:
    """The model of a file, fitted."""
    return read_saved(path, APP, partial(_build, kind))


def _build(kind: type[MRFClassifier], told: Record) -> MRFClassifier:
    columns = told.items("columns", lambda record, name: _column(record.record(name)))
    classes = told.items("classes", lambda record, name: record.record(name).classes("labels", "type"))
    outputs, flat, named = told.texts("outputs"), told.flag("flat"), told.flag("named")
    if len(outputs) != len(classes) or not classes:
        raise FieldError("outputs", f"lists {len(outputs)} outputs, but there are classes of {len(classes)}")
    if flat and len(classes) > 1:
        raise FieldError("flat", f"says that there is one output, but there are {len(classes)}")
    system = build_system(told)
    if system.vocabulary is None or system.roles is None:
        raise FieldError("vocabulary" if system.vocabulary is None else "roles", "is not there")
    names, sizes = system.vocabulary.names, system.vocabulary.cardinalities
    model = kind(inference=system.inference, decoder=system.decoder)
    model.system_ = system
    model._columns = Columns(names[: len(columns)], columns)
    model._answers = Answers(outputs, classes, flat)
    wanted = [len(labels) for labels in model._columns.labels] + [len(known) for known in classes]
    if wanted != list(sizes[: len(wanted)]) or len(model._outputs) != len(classes):
        raise ValueError(f"columns and classes have {wanted} values, the variables of the system {list(sizes)}")
    model.classes_ = classes[0] if model._answers.flat else list(classes)
    model.n_features_in_ = len(columns)
    if named:
        model.feature_names_in_ = np.array(model._columns.names, dtype=object)
    return model


def _describe_column(column: Column) -> dict[str, Any]:
    if isinstance(column, Numbers):
        return {"cuts": column.cuts.tolist(), "labels": list(column.labels)}
    return {"labels": list(column.labels)}


def _column(told: Record) -> Column:
    labels = told.texts("labels")
    if "cuts" not in told:
        return Texts(labels)
    cuts = np.array(told.items("cuts", Record.number), dtype=np.float64)
    if len(cuts) + 1 != len(labels) or (np.diff(cuts) < 0).any():
        raise FieldError(told.name("cuts"), f"must be {len(labels) - 1} rising numbers, for {len(labels)} intervals")
    return Numbers(cuts, labels)
