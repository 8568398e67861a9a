"""How good label sets are.

In: right and decided labels. Out: :class:`MultiLabelReport`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopwise.learn.label_sets.weights import Floats, Integers


@dataclass(frozen=True)
class MultiLabelReport:
    """Errors and F1 on a set of examples; F of a label that neither is nor is said is 1.

    ``hamming``: the share of labels that are wrong. ``subset``: the share of examples with any wrong. ``examples_f1``:
    the mean F1 of examples. ``micro_f1``: counts of all labels added up. ``macro_f1``: the mean over labels.
    """

    examples: int
    hamming: float
    subset: float
    examples_f1: float
    micro_f1: float
    macro_f1: float
    labels: dict[str, dict[str, float]]  # of each its error, F1 and how often it is right

    def to_json(self) -> dict[str, Any]:
        return {
            "examples": self.examples,
            "hamming_error": self.hamming,
            "subset_error": self.subset,
            "examples_f1": self.examples_f1,
            "micro_f1": self.micro_f1,
            "macro_f1": self.macro_f1,
            "labels": self.labels,
        }


def compare(gold: Integers, said: Integers, names: tuple[str, ...]) -> MultiLabelReport:
    """The report on ``said`` beside ``gold``, both 0 or 1, ``[examples, labels]``."""
    wrong = gold != said
    both, sizes = gold * said, gold + said
    by_label = _f1(both.sum(axis=0), sizes.sum(axis=0))
    labels = {
        name: {"error": float(wrong[:, place].mean()), "f1": float(by_label[place]), "gold": int(gold[:, place].sum())}
        for place, name in enumerate(names)
    }
    return MultiLabelReport(
        len(gold),
        float(wrong.mean()),
        float(wrong.any(axis=1).mean()),
        float(_f1(both.sum(axis=1), sizes.sum(axis=1)).mean()),
        float(_f1(both.sum(keepdims=True), sizes.sum(keepdims=True))[0, 0]),
        float(by_label.mean()),
        labels,
    )


def _f1(agreed: Integers, size: Integers) -> Floats:
    empty = size == 0
    found: Floats = (2.0 * agreed + empty) / (size + empty)
    return found
