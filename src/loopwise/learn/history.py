"""What happened during training, epoch by epoch.

In: numbers. Out: :class:`History`, which reads like a list of :class:`Epoch`, becomes JSON, and draws itself.
Stage: learning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from loopwise.notebook import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Epoch:
    """One pass over the training examples."""

    number: int  # from 1, within its restart
    loss: float  # mean over the examples, each as it was before its step
    seconds: float
    stage: int = 0
    restart: int = 0
    dev: float | None = None
    gains: tuple[float, float, float] | None = None  # the least, the median and the largest, if the optimiser has any


@dataclass
class History(Shown):
    """Training as it went. ``epochs`` holds those of all restarts; the lists below are of the restart that was kept.

    ``ended``: why training stopped. ``best``: the epoch whose weights the system has, if not the last one.
    """

    epochs: list[Epoch] = field(default_factory=list)
    restart: int = 0  # the one kept
    best: int | None = None
    ended: str = ""

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self.kept)

    def __getitem__(self, index: int) -> Epoch:
        return self.kept[index]

    @property
    def kept(self) -> list[Epoch]:
        """The epochs of the restart that was kept."""
        return [epoch for epoch in self.epochs if epoch.restart == self.restart]

    @property
    def losses(self) -> list[float]:
        """The training loss of each epoch."""
        return [epoch.loss for epoch in self.kept]

    @property
    def dev(self) -> list[float]:
        """The measure of the development data after each epoch; empty without such data."""
        return [epoch.dev for epoch in self.kept if epoch.dev is not None]

    @property
    def seconds(self) -> float:
        """Time of all epochs of all restarts."""
        return sum(epoch.seconds for epoch in self.epochs)

    def without_times(self) -> History:
        """The same without the seconds, which no two runs have alike: what saved files keep, so that equal runs give
        equal files."""
        return replace(self, epochs=[replace(epoch, seconds=0.0) for epoch in self.epochs])

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and mappings."""
        return {
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "restart": self.restart,
            "best": self.best,
            "ended": self.ended,
        }

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> History:
        """The history that :meth:`to_json` wrote."""
        epochs = []
        for entry in json["epochs"]:
            gains = entry["gains"]
            epochs.append(Epoch(**{**entry, "gains": None if gains is None else tuple(gains)}))
        return History(epochs, json["restart"], json["best"], json["ended"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The training loss, a line for each stage, and the measure of the development data; other restarts faintly.

        A picture of several histories is :func:`loopwise.plot.history`.
        """
        axes = _new_axes() if ax is None else ax
        for restart in sorted({epoch.restart for epoch in self.epochs} - {self.restart}):
            mine = [epoch for epoch in self.epochs if epoch.restart == restart]
            axes.plot([epoch.number for epoch in mine], [epoch.loss for epoch in mine], color="#cccccc", linewidth=1)
        stages = sorted({epoch.stage for epoch in self.kept})
        for stage in stages:
            mine = [epoch for epoch in self.kept if epoch.stage == stage]
            label = "training loss" if len(stages) == 1 else f"training loss, stage {stage + 1}"
            axes.plot([epoch.number for epoch in mine], [epoch.loss for epoch in mine], marker=".", label=label)
        if self.dev:
            numbers = [epoch.number for epoch in self.kept if epoch.dev is not None]
            axes.plot(numbers, self.dev, marker=".", linestyle="--", color="#333333", label="development data")
        if self.best is not None:
            axes.axvline(self.best, color="#999999", linewidth=1, linestyle=":")
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        axes.legend(frameon=False)
        return axes


def _new_axes() -> Axes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()
