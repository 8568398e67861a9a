"""Every class that a file may name."""

from __future__ import annotations

from typing import Any

from loopwise.learn.files.known import KNOWN
from loopwise.learn.files.saving import describe_system
from oracles.saving_cases import (
    sparse_system,
    structured_system,
    systems,
)


def test_every_known_class_is_tried() -> None:
    named: set[str] = set()

    def collect(json: Any) -> None:
        if isinstance(json, dict):
            named.update([json["class"]] if "class" in json else [])
            json = list(json.values())
        if isinstance(json, list):
            for member in json:
                collect(member)

    for system in [*systems(), sparse_system(), structured_system()]:
        collect(describe_system(system)[1])
    # Temperature schedules, tapes and the like are classes too: all of them must have come by.
    assert {known.name for known in KNOWN} - named == set()
