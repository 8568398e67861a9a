"""Labellings: worlds of variables with values.

In: values and cardinalities. Out: a :class:`Labelling`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwise.walk.world import World


class Labelling(World):
    """Each variable has one of its values; ``free`` lists those that may change (by default all)."""

    def __init__(self, values: Sequence[int], cardinalities: Sequence[int], free: Sequence[int] | None = None) -> None:
        self.values = [int(value) for value in values]
        self.cardinalities = [int(size) for size in cardinalities]
        self.free = list(range(len(self.values))) if free is None else [int(variable) for variable in free]
        for variable, (value, size) in enumerate(zip(self.values, self.cardinalities, strict=True)):
            if not 0 <= value < size:
                raise ValueError(f"variable {variable} has the unknown label {value}; its labels are 0 to {size - 1}")

    def labels(self) -> list[int]:
        return list(self.values)

    def assign(self, item: int, value: int) -> tuple[int, int]:
        token = item, self.values[item]
        self.values[item] = value
        return token

    def restore(self, token: tuple[int, int]) -> None:
        item, old = token
        self.values[item] = old

    def copy(self) -> Labelling:
        return Labelling(self.values, self.cardinalities, self.free)
