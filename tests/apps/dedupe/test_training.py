"""Which way of clustering is taken."""

from __future__ import annotations

from loopwise.apps.dedupe.training import Method, _choice


def test_average_linkage_is_taken_unless_another_way_is_better() -> None:
    average, entities, connected = Method.AVERAGE, Method.ENTITIES, Method.CONNECTED
    same = {(average, 0.0): [0.9, 0.9], (average, 1.0): [0.9, 0.9], (entities, 0.0): [0.901, 0.9]}
    assert _choice(same, False) == (average, 1.0)
    assert _choice({**same, (entities, 0.0): [0.95, 0.9]}, False) == (entities, 0.0)
    assert _choice({**same, (connected, 2.0): [0.95, 0.95], (entities, 0.0): [0.95, 0.95]}, False)[0] is entities
    assert _choice({}, True)[0] is Method.MATCHED
