"""Metrics followed through small changes: the signal of a walk, without going over the whole answer again.

In: a truth and a state, as integers, and changes ``(item, old, new)``. Out: a :class:`Tracker`, which says what a
change would gain before it is made. Stage: loss. A gain costs O(changes), for entities O(length of those near by).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

Change = tuple[int, int, int]  # item (variable or mention), old value, new value


class Tracker(ABC):
    """A metric of a state that changes a little at a time; larger is better."""

    @abstractmethod
    def value(self) -> float:
        """The metric of the state as it is."""

    @abstractmethod
    def gap(self) -> float:
        """How far the state's value is below that of the truth."""

    @abstractmethod
    def change(self, item: int, old: int, new: int) -> None:
        """The item goes from ``old`` to ``new``."""

    def gain(self, changes: Sequence[Change]) -> float:
        """What the value would rise by; the state stays as it is."""
        before = self.value()
        for change in changes:
            self.change(*change)
        after = self.value()
        for item, old, new in reversed(changes):
            self.change(item, new, old)
        return after - before


class HammingTracker(Tracker):
    """The number of items that are right, as a share of those scored (truth not -1), or as it is.

    ``top``: the value of the truth; 0 makes the value minus the share that is wrong.
    """

    def __init__(self, truth: Sequence[int], state: Sequence[int], *, top: float = 1.0, share: bool = True) -> None:
        self.truth = truth
        self.scored = sum(gold >= 0 for gold in truth)
        self.right = sum(gold >= 0 and value == gold for gold, value in zip(truth, state, strict=True))
        self.weight = float(max(self.scored, 1)) if share else 1.0
        self.top = top

    def value(self) -> float:
        return self.top - self.gap()

    def gap(self) -> float:
        return (self.scored - self.right) / self.weight

    def change(self, item: int, old: int, new: int) -> None:
        gold = self.truth[item]
        if gold >= 0:
            self.right += (new == gold) - (old == gold)

    def gain(self, changes: Sequence[Change]) -> float:
        rise = 0
        for item, old, new in changes:
            gold = self.truth[item]
            if gold >= 0:
                rise += (new == gold) - (old == gold)
        return rise / self.weight


class CountTracker(Tracker):
    r"""The mean over labels of :math:`F_\beta`, from counts of agreed, decided and gold.

    Value ``v`` of item ``i`` decides for label ``label_of[v] + i * step``; values that are not named decide for none.
    ``count`` labels in all.
    """

    def __init__(
        self,
        truth: Sequence[int],
        state: Sequence[int],
        label_of: Mapping[int, int],
        count: int,
        step: int,
        beta: float,
    ) -> None:
        self.truth, self.label_of, self.count, self.step, self.beta = truth, label_of, count, step, beta
        self.agreed, self.decided, self.gold = [0] * count, [0] * count, [0] * count
        for item, (gold, value) in enumerate(zip(truth, state, strict=True)):
            if gold >= 0:
                self._decide(item, value, 1)
                label = self._label(item, gold)
                if label >= 0:
                    self.gold[label] += 1

    def value(self) -> float:
        total = 0.0
        for label in range(self.count):
            total += self._f(self.agreed[label], self.decided[label], self.gold[label])
        return total / self.count

    def gap(self) -> float:
        return 1.0 - self.value()

    def change(self, item: int, old: int, new: int) -> None:
        if self.truth[item] >= 0:
            self._decide(item, old, -1)
            self._decide(item, new, 1)

    def gain(self, changes: Sequence[Change]) -> float:
        if len(changes) != 1:
            return super().gain(changes)
        item, old, new = changes[0]
        if self.truth[item] < 0 or old == new:
            return 0.0
        source, target = self._label(item, old), self._label(item, new)
        touched = [label for label in dict.fromkeys((source, target)) if label >= 0]
        before = {label: self._f(self.agreed[label], self.decided[label], self.gold[label]) for label in touched}
        self.change(item, old, new)
        total = 0.0
        for label in touched:
            total += self._f(self.agreed[label], self.decided[label], self.gold[label])
            total -= before[label]
        self.change(item, new, old)
        return total / self.count

    def _label(self, item: int, value: int) -> int:
        label = self.label_of.get(value, -1)
        return label + item * self.step if label >= 0 else -1

    def _decide(self, item: int, value: int, by: int) -> None:
        label = self._label(item, value)
        if label >= 0:
            self.agreed[label] += by * (value == self.truth[item])
            self.decided[label] += by

    def _f(self, agreed: int, decided: int, gold: int) -> float:
        size = self.beta * self.beta * gold + decided
        return 1.0 if size <= 0.0 else (1.0 + self.beta * self.beta) * agreed / size
