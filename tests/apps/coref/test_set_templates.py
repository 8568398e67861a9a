"""Templates of entities, and enough of all."""

from __future__ import annotations

from loopwise.apps.coref.pair_templates import pair_templates
from loopwise.apps.coref.set_templates import PREDICATES, attribute_values


def test_there_are_enough_templates() -> None:
    templates = pair_templates(10)
    assert len({template.name for template in templates}) == len(templates) >= 25
    setwise = 1 + len(PREDICATES) + len(attribute_values(10))  # size, predicates, attributes
    assert setwise >= 15
