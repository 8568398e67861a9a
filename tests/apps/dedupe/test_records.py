"""Records and their ids."""

from __future__ import annotations

import pytest

from loopwise.apps.dedupe.labels import entities_of, names_of
from loopwise.apps.dedupe.records import Records, side_of

TABLE = Records.of({"key": ["a", "b", "c", "d"], "name": ["Ann", "Anne", "Bob", ""], "n": ["1", "2", "3", "4"]})


def test_ids_of_records_and_entities() -> None:
    assert names_of(TABLE, None) == ("0", "1", "2", "3")
    with pytest.raises(ValueError, match="the id 'x' in column 'k' of the table is that of rows 0 and 2"):
        names_of(Records.of({"k": ["x", "y", "x"]}), "k")
    with pytest.raises(ValueError, match="row 1 of the table has no id"):
        names_of(Records.of({"k": ["x", ""]}), "k")
    assert entities_of(["p", None, "p", "q"], TABLE).tolist() == [0, -1, 0, 1]
    with pytest.raises(ValueError, match="column 'key' of the table is different in every row"):
        entities_of("key", TABLE)
    with pytest.raises(ValueError, match="the same in every row"):
        entities_of(["p"] * 4, TABLE)
    with pytest.raises(ValueError, match="is empty"):
        entities_of([None] * 4, TABLE)
    with pytest.raises(ValueError, match="2 ids for 4 records"):
        entities_of(["p", "p"], TABLE)


def test_rows_of_two_tables_have_sides() -> None:
    side = side_of(TABLE, TABLE)
    assert side is not None and side.tolist() == [0] * len(TABLE) + [1] * len(TABLE)
    assert side_of(TABLE, None) is None


def test_records_that_can_be_read_only_once_are_refused() -> None:
    """Training and answers would each see half of them, or nothing."""
    with pytest.raises(ValueError, match=r"an iterator is empty after that: give list\(records\)"):
        Records.of(iter([{"a": "x"}, {"a": "y"}]))  # type: ignore[arg-type]
