"""A marginal with the names of its values.

In: a name, labels, probabilities. Out: :class:`NamedTable`, which reads and prints like a small table. Stage:
inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from loopwise.formats.errors import quoted
from loopwise.formats.vocabulary import known_names
from loopwise.notebook import Shown

_SHOWN = 12  # values, or examples, that are printed


@dataclass(frozen=True, eq=False)
class NamedTable(Shown):
    """The marginal of one variable: ``values[..., k]`` is the probability of ``labels[k]``.

    >>> import torch
    >>> table = NamedTable("flu", ("no", "yes"), torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
    >>> table["yes"].tolist(), table.best
    ([0.25, 0.5], ['no', 'no'])
    >>> table
    flu: no 0.75, yes 0.25
         no 0.5, yes 0.5
    """

    name: str
    labels: tuple[str, ...]
    values: Tensor  # [*batch, cardinality]

    def __getitem__(self, label: str) -> Any:
        """The probability of a value: a number, or of a batch a tensor ``[*batch]``, which keeps its gradient."""
        if label not in self.labels:
            known = known_names("values", self.labels, str(label))
            raise ValueError(f"variable {quoted(self.name)} has no value {quoted(str(label))}; {known}")
        found = self.values[..., self.labels.index(label)]
        return found if found.ndim else float(found.detach())

    @property
    def best(self) -> Any:
        """The most probable value, or of a batch a list of them."""
        places = self.values.argmax(-1)
        return _named(places.tolist(), self.labels)

    def to_dict(self) -> dict[str, Any]:
        """The probability of each value, as numbers or lists."""
        return {label: self.values[..., place].detach().tolist() for place, label in enumerate(self.labels)}

    def __repr__(self) -> str:
        rows = self.values.detach().reshape(-1, self.values.shape[-1])
        head, indent = f"{self.name}: ", " " * (len(self.name) + 2)
        lines = [self._line(row) for row in rows[:_SHOWN].tolist()]
        lines += [f"... {len(rows)} examples"] if len(rows) > _SHOWN else []
        return head + f"\n{indent}".join(lines)

    def _line(self, row: list[float]) -> str:
        cells = [f"{label} {share:.4g}" for label, share in zip(self.labels[:_SHOWN], row, strict=False)]
        return ", ".join([*cells, *([f"... {len(self.labels)} values"] if len(self.labels) > _SHOWN else [])])


def _named(places: Any, labels: tuple[str, ...]) -> Any:
    return [_named(place, labels) for place in places] if isinstance(places, list) else labels[places]
