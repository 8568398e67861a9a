"""Model cards: what a saved model is, what it was trained on, how good it was, what it costs; in the file itself.

In: a file that any ``save`` wrote. Out: :class:`ModelCard`. Stage: learning. A file of before there were cards has one
of what can be read off it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from loopwise.formats.files import PathLike
from loopwise.learn.files.container import CARD, kind_of, read_container
from loopwise.learn.history import History


@dataclass(frozen=True)
class ModelCard:
    """What there is to say of a model before one uses it.

    ``version``: of the loopwise that wrote it. ``weights``: how many numbers were trained. ``data``: what it was
    trained on, ``figures``: how training ended, by name; ``budget``: the inference it was trained for and answers with.
    What is not known is empty.
    """

    what: str = ""
    version: str = ""
    weights: int = 0
    data: str = ""
    budget: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_markdown(self) -> str:
        """The card as a page.

        >>> print(ModelCard("Tagger", "0.1.0", 12, data="3 sentences").to_markdown())
        # Tagger
        <BLANKLINE>
        | | |
        | :-- | :-- |
        | version | 0.1.0 |
        | weights | 12 |
        | data | 3 sentences |
        """
        told = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("what", *_TABLES)}
        rows = [(name, value) for name, value in told.items() if value]
        rows += [(str(name), value) for part in _TABLES for name, value in getattr(self, part).items()]
        lines = [f"| {name} | {_cell(value)} |" for name, value in rows]
        return "\n".join([f"# {self.what}", "", "| | |", "| :-- | :-- |", *lines])

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


_TABLES = ("figures", "notes")


def training_card(
    data: str,
    goal: str,
    history: History | None = None,
    measure: str = "score",
    figures: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What training tells the card of a model: its data, what it was trained for, how that went; ``measure``: what
    development data were judged by.

    No time is among the figures: equal runs give equal files. Nor is what is not finite, which files do not hold.

    >>> training_card("3 rows", "likelihood", figures={"rounds": 4})
    {'data': '3 rows', 'figures': {'trained for': 'likelihood', 'rounds': 4}}
    """
    told: dict[str, Any] = {"trained for": goal}
    if history is not None and history.losses:
        told.update({"epochs": len(history), "training loss": history.losses[-1]})
        kept = next((epoch for epoch in history if epoch.number == history.best), history[-1])
        if kept.dev is not None:
            told[f"{measure} on development data"] = kept.dev
    told.update(figures or {})
    known = {name: value for name, value in told.items() if not isinstance(value, float) or math.isfinite(value)}
    return {"data": data, "figures": known}


def kept_card(description: Mapping[str, Any]) -> dict[str, Any]:
    """What the card of a file says of data and figures; the rest is that of whoever saves it next."""
    given = description.get(CARD)
    if not isinstance(given, dict):
        return {}
    return {name: value for name, value in given.items() if name not in ("version", "budget", "weights")}


def number_count(tensors: Mapping[str, Tensor], left_out: Collection[str] = ()) -> int:
    """How many numbers tensors hold that may be weights, integers are none, without some by name."""
    return sum(each.numel() for name, each in tensors.items() if each.is_floating_point() and name not in left_out)


def model_card(path: PathLike) -> ModelCard:
    """The card of the model in the file at ``path``; nothing in the file is run.

    Raises
    ------
    FormatError
        Where it is no file of loopwise, or damaged.

    >>> import pathlib, tempfile, loopwise as lw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "chain.loopwise"
    >>> lw.System(lw.TablePotentials(lw.chain(3)), lw.BP(iterations=5)).save(path, card={"data": "none yet"})
    >>> card = model_card(path)
    >>> card.what, card.weights, card.data, card.budget.partition(",")[0]
    ('System', 14, 'none yet', 'BP(iterations=5')
    """
    tensors, description = read_container(path)
    given = description.get(CARD)
    told: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
    told.setdefault("what", kind_of(description))
    told.setdefault("weights", number_count(tensors))  # files of before apps counted have scales among them
    if isinstance(description.get("notes"), dict):
        told["notes"] = {**description["notes"], **_mapping(told.get("notes"))}
    known = {each.name: each.type for each in fields(ModelCard)}
    others = {name: value for name, value in told.items() if name not in known}
    sound = {name: _as_known(name, told[name]) for name in known if name in told}
    sound["notes"] = {**others, **_mapping(sound.get("notes"))}
    return ModelCard(**sound)


def _as_known(name: str, value: Any) -> Any:
    """A field of the kind it should have, whatever a file says."""
    if name in _TABLES:
        return _mapping(value)
    if name == "weights":
        return value if isinstance(value, int) else 0
    return str(value)


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
