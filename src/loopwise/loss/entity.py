r"""F1 of entities in tag sequences, as shared tasks and seqeval count them.

In: sequences of tags and the names of the tags. Out: a number. Stage: loss. An entity is right if its first token, its
last token and its type are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.inference.decision import Distributions
from loopwise.loss.answers import KnownAnswers, Metric
from loopwise.loss.f_measure import f_measure
from loopwise.loss.incremental import Change, Tracker
from loopwise.loss.targets import TargetsLike

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class EntityF1Score(Metric):
    """F1 of entities; ``tags`` names each value: ``O``, or ``B-``, ``I-``, ``E-`` or ``S-`` and a type.

    The lenient reading of the CoNLL shared tasks and of seqeval's default mode: an entity goes on from one token to the
    next if the first is tagged B or I, the second I or E, and the types agree; any other tag but ``O`` begins one. So
    IOB1, IOB2 and IOBES all read as meant. The mean over sequences unless ``reduction=Pooled()``, which is what shared
    tasks report. Tokens with target -1 are outside.

    >>> metric = EntityF1Score(tags=("O", "B-PER", "I-PER"))
    >>> round(float(metric(torch.tensor([1, 2, 0, 1]), torch.tensor([1, 2, 0, 0]))), 3)
    0.667
    """

    higher_is_better: ClassVar[bool] = True

    tags: Sequence[str]

    def __post_init__(self) -> None:
        _ = self.types

    @property
    def columns(self) -> int:
        return 4

    @cached_property
    def types(self) -> Integers:
        """Number of the type of each tag, -1 outside, ``[tags]``."""
        numbers: dict[str, int] = {}
        parsed = [_parse(tag) for tag in self.tags]
        return np.array([-1 if prefix == "O" else numbers.setdefault(kind, len(numbers)) for prefix, kind in parsed])

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """Whether an entity goes on from the first tag to the second, ``[tags, tags]``."""
        prefixes = np.array([_parse(tag)[0] for tag in self.tags])
        before, after = np.isin(prefixes, ("B", "I")), np.isin(prefixes, ("I", "E"))
        alike: NDArray[np.bool_] = before[:, None] & after & (self.types[:, None] == self.types)
        return alike

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        if not isinstance(answer.known, Tensor):
            raise ValueError(
                "F1 of entities needs one right tag for each token, not sets of them; give one number each"
            )
        scored = answer.scored.cpu().numpy()
        mine = self._ends(answer.values.cpu().numpy(), scored)
        gold = self._ends(answer.known.expand(answer.values.shape).cpu().numpy(), scored)
        right = (mine == gold) & (mine >= 0)
        columns = [scored, right, mine >= 0, gold >= 0]
        return torch.from_numpy(np.stack([column.sum(-1) for column in columns], -1).astype(np.float64))

    def value(self, statistics: Tensor) -> Tensor:
        return f_measure(statistics, 1.0)

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the F1 of one sequence."""
        return EntityTracker(self, truth, state)

    def _ends(self, values: Integers, scored: NDArray[np.bool_]) -> Integers:
        """At the first token of each entity its end and type as one number, -1 elsewhere; ``[*batch, tokens]``."""
        self._check(values, scored)
        tags = np.where(scored, values, 0)
        kinds = np.where(scored, self.types[tags], -1)
        length = values.shape[-1]
        goes_on = np.zeros((*values.shape[:-1], length + 1), dtype=np.bool_)  # into place t; never past the end
        if length:
            goes_on[..., 1:length] = self.continues[tags[..., :-1], tags[..., 1:]] & scored[..., 1:] & scored[..., :-1]
        stops = np.where(goes_on, length + 1, np.arange(length + 1))
        after = np.minimum.accumulate(stops[..., ::-1], axis=-1)[..., ::-1]  # first stop at or after t
        begins = (kinds >= 0) & ~goes_on[..., :length]
        return np.where(begins, after[..., 1:] * (1 + len(self.tags)) + kinds, -1)

    def _check(self, values: Integers, scored: NDArray[np.bool_]) -> None:
        bad = values[scored & ((values < 0) | (values >= len(self.tags)))]
        if bad.size:
            raise ValueError(f"tag {bad[0]} is unknown: the metric names tags 0 to {len(self.tags) - 1}; list all tags")


class EntityTracker(Tracker):
    """F1 of the entities of one sequence; a change looks at the entities next to it only."""

    def __init__(self, metric: EntityF1Score, truth: Sequence[int], state: Sequence[int]) -> None:
        self.kinds, self.goes_on = metric.types.tolist(), metric.continues.tolist()
        for tag in (*truth, *state):
            if not 0 <= tag < len(self.kinds):
                raise ValueError(
                    f"tag {tag} is unknown: the metric names tags 0 to {len(self.kinds) - 1}; list all tags"
                )
        self.state = list(state)
        self.ends = {first: (end, kind) for first, end, kind in self._entities(truth, 0, len(truth))}
        mine = self._entities(state, 0, len(state))
        self.right, self.found = self._right(mine), len(mine)

    def value(self) -> float:
        return self._f(self.right, self.found)

    def gap(self) -> float:
        return 1.0 - self.value()

    def change(self, item: int, old: int, new: int) -> None:
        right, found = self._rise(item, new)
        self.right += right
        self.found += found
        self.state[item] = new

    def gain(self, changes: Sequence[Change]) -> float:
        if len(changes) != 1:
            return super().gain(changes)
        item, old, new = changes[0]
        if old == new:
            return 0.0
        right, found = self._rise(item, new)
        return self._f(self.right + right, self.found + found) - self._f(self.right, self.found)

    def _f(self, right: int, found: int) -> float:
        size = len(self.ends) + found
        return 1.0 if size <= 0 else 2.0 * right / size

    def _rise(self, item: int, new: int) -> tuple[int, int]:
        """What right and found entities rise by if the tag of ``item`` becomes ``new``."""
        begin, end = self._window(item)
        before = self._entities(self.state, begin, end)
        old, self.state[item] = self.state[item], new
        after = self._entities(self.state, begin, end)
        self.state[item] = old
        return self._right(after) - self._right(before), len(after) - len(before)

    def _window(self, item: int) -> tuple[int, int]:
        """From the first token of the entity left of ``item`` to the last of the one right of it."""
        tags, begin, end = self.state, item, min(item + 2, len(self.state))
        if item > 0 and self.kinds[tags[item - 1]] >= 0:
            begin = item - 1
            while begin > 0 and self.goes_on[tags[begin - 1]][tags[begin]]:
                begin -= 1
        while end < len(tags) and self.goes_on[tags[end - 1]][tags[end]]:
            end += 1
        return begin, end

    def _entities(self, tags: Sequence[int], begin: int, end: int) -> list[tuple[int, int, int]]:
        """(first token, one past the last, type) of the entities within [begin, end)."""
        found, place = [], begin
        while place < end:
            first, kind = place, self.kinds[tags[place]]
            place += 1
            if kind >= 0:
                while place < end and self.goes_on[tags[place - 1]][tags[place]]:
                    place += 1
                found.append((first, place, kind))
        return found

    def _right(self, entities: Sequence[tuple[int, int, int]]) -> int:
        return sum(self.ends.get(first) == (end, kind) for first, end, kind in entities)


def _parse(tag: str) -> tuple[str, str]:
    prefix, _, kind = tag.partition("-")
    if (prefix == "O" and not kind) or (prefix in ("B", "I", "E", "S") and "-" in tag):
        return prefix, kind
    raise ValueError(f"tag {tag!r} is neither 'O' nor 'B-', 'I-', 'E-' or 'S-' and a type; rename it, or leave it out")
