"""Clusterings: worlds of mentions that share entities.

In: the entity of each mention. Out: a :class:`Clustering`, which changes in O(entity) and goes back exactly. Stage:
walking.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Sequence

from loopwise.walk.world import World

Token = tuple[int, int, int, int]  # mention, old entity, new entity, where the old one stood if it was emptied


class Clustering(World):
    """Each mention belongs to one entity. Entities are numbered from 0 in the order of their first mentions.

    ``members[e]``: the mentions of an entity, ascending. ``active``: the entities that have any; ``free``: the numbers
    of the others, the next to be used last. Both change in a fixed way, so that a random place in ``active`` means the
    same entity in every implementation.

    >>> world = Clustering([7, 3, 7])
    >>> world.labels(), world.members[:2]
    ([0, 1, 0], [[0, 2], [1]])
    """

    def __init__(self, entities: Sequence[int]) -> None:
        numbers: dict[int, int] = {}
        self.entity = [numbers.setdefault(int(entity), len(numbers)) for entity in entities]
        mentions = len(self.entity)
        self.members: list[list[int]] = [[] for _ in range(mentions)]
        for mention, entity in enumerate(self.entity):
            self.members[entity].append(mention)
        self.active = list(range(len(numbers)))
        self.place = [*range(len(numbers)), *[-1] * (mentions - len(numbers))]
        self.free = list(range(mentions - 1, len(numbers) - 1, -1))

    @property
    def mentions(self) -> int:
        return len(self.entity)

    @property
    def new_entity(self) -> int:
        """The number of the entity that a mention founds when it leaves for one of its own."""
        return self.free[-1]

    def labels(self) -> list[int]:
        return list(self.entity)

    def assign(self, item: int, value: int) -> Token:
        old, place = self.entity[item], -1
        if not self.members[value]:
            if not self.free or self.free[-1] != value:
                raise ValueError(
                    f"entity {value} is empty and not the next free one ({self.free[-1:]}); use new_entity"
                )
            self.free.pop()
            self.place[value] = len(self.active)
            self.active.append(value)
        self.members[old].remove(item)
        if not self.members[old]:
            place = self.place[old]
            last = self.active.pop()
            if last != old:
                self.active[place] = last
                self.place[last] = place
            self.place[old] = -1
            self.free.append(old)
        insort(self.members[value], item)
        self.entity[item] = value
        return item, old, value, place

    def restore(self, token: Token) -> None:
        item, old, new, place = token
        self.members[new].remove(item)
        if place >= 0:
            self.free.pop()
            if place < len(self.active):
                moved = self.active[place]
                self.place[moved] = len(self.active)
                self.active.append(moved)
                self.active[place] = old
            else:
                self.active.append(old)
            self.place[old] = place
        if not self.members[new]:
            self.active.pop()
            self.place[new] = -1
            self.free.append(new)
        insort(self.members[old], item)
        self.entity[item] = old

    def copy(self) -> Clustering:
        other = Clustering(())
        other.entity, other.active, other.place, other.free = (
            list(self.entity),
            list(self.active),
            list(self.place),
            list(self.free),
        )
        other.members = [list(members) for members in self.members]
        return other

    def key(self) -> Hashable:
        numbers: dict[int, int] = {}
        return tuple(numbers.setdefault(entity, len(numbers)) for entity in self.entity)
