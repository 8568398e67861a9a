"""Data with label sets, from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.multilabel.data import read_for, read_labelled
from loopwise.formats.arff import read_label_names
from loopwise.formats.errors import FormatError
from loopwise.notices import DataWarning
from oracles.arff_texts import DENSE, SPARSE, write

XML = '<?xml version="1.0"?><labels xmlns="http://x/labels"><label name="on"><label name="off"/></label></labels>'


def test_inputs_and_labels(tmp_path: Path) -> None:
    labels = write(tmp_path, XML, "labels.xml")
    assert read_label_names(labels) == ("on", "off")
    data = read_labelled(write(tmp_path, DENSE), labels)
    assert data.columns.features == ["width in cm", "kind=red", "kind=dark blue", 'kind=it"s', "flag"]
    nan = np.nan
    np.testing.assert_array_equal(data.inputs, [[1.5, 1, 0, 0, 0], [-2e3, 0, 1, 0, 1], [nan, nan, nan, nan, 1]])
    assert data.labels is not None and data.labels.tolist() == [[1, 1], [0, 0], [1, 0]]
    scant = read_labelled(write(tmp_path, SPARSE, "sparse.arff"), ["on", "off"])
    np.testing.assert_array_equal(scant.inputs.toarray()[:3], data.inputs)
    # By name, whatever the order; labels may be unknown when they are not wanted.
    other = "@relation r\n@attribute flag {0,1}\n@attribute kind {\"dark blue\", new}\n@attribute 'width in cm' real\n"
    with pytest.warns(DataWarning, match=r"o\.arff: 1 cells hold values of attributes that training did not see"):
        found = read_for(
            write(tmp_path, other + "@data\n1,new,3\n0,'dark blue',4\n", "o.arff"), data.columns, wants_labels=False
        )
    np.testing.assert_array_equal(found.inputs, [[3, 0, 0, 0, 1], [4, 0, 1, 0, 0]])
    assert found.labels is None
    with pytest.raises(FormatError, match="no attribute 'on', which is a label"):
        read_for(tmp_path / "o.arff", data.columns, wants_labels=True)


def test_a_label_named_twice(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'on' is named twice"):
        read_labelled(write(tmp_path, DENSE), ["on", "off", "on"])


def test_labels_that_are_none(tmp_path: Path) -> None:
    path = write(tmp_path, DENSE)
    with pytest.raises(FormatError, match="no attribute 'missing'"):
        read_labelled(path, ["missing"])
    with pytest.raises(FormatError, match="must be 0 or 1"):
        read_labelled(path, ["kind"])
    with pytest.raises(FormatError, match="example 3 is nan"):
        read_labelled(write(tmp_path, DENSE.replace("?,?,1,1,0", "1,red,1,?,0"), "n.arff"), ["on"])
    with pytest.raises(FormatError, match="XML list"):
        read_labelled(write(tmp_path, DENSE.replace("-C 2", ""), "c.arff"))
    with pytest.raises(FormatError, match="no input"):
        read_labelled(write(tmp_path, "@relation r\n@attribute a {0,1}\n@data\n1\n", "a.arff"), ["a"])


def test_published_files(shared_data: Path) -> None:
    folder = shared_data / "multilabel"
    sizes = {"flags": (129, 7), "medical": (333, 45), "genbase": (463, 27)}
    for name, (examples, labels) in sizes.items():
        data = read_labelled(folder / name / f"{name}-train.arff.gz", folder / name / f"{name}.xml")
        assert data.labels is not None and data.labels.shape == (examples, labels) and data.labels.any(axis=0).sum() > 4
        assert data.inputs.shape == (examples, len(data.columns.features))
