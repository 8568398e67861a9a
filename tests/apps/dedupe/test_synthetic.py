"""Made records: as many as asked for, the same for the same seed, with mistakes in the share asked for."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe.synthetic import made_records


def test_records_and_who_they_are() -> None:
    records, ids = made_records(300, seed=1, noise=0.2)
    again, same = made_records(300, seed=1, noise=0.2)
    assert len(records) == len(ids) >= 300 and records.columns == again.columns and (ids == same).all()
    counts = np.bincount(ids)
    assert counts.max() <= 4 and counts.min() >= 1
    empty = np.mean([[cell == "" for cell in column] for column in records.columns])
    assert empty == pytest.approx(0.1, abs=0.03)


def test_without_noise_copies_are_equal() -> None:
    records, ids = made_records(100, noise=0.0)
    rows = list(zip(*records.columns, strict=True))
    for person in np.unique(ids):
        assert len({rows[place] for place in np.flatnonzero(ids == person)}) == 1


def test_bad_numbers() -> None:
    for count, noise in ((0, 0.1), (10, 1.5)):
        with pytest.raises(ValueError, match="count must be at least 1 and noise a share"):
            made_records(count, noise=noise)
