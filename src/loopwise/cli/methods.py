"""Names of methods, tasks and schedules, and the objects they stand for.

In: what the user chose. Out: an :class:`Inference`. Options that a method does not have are an error, never
ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from loopwise.inference.base import Inference
    from loopwise.inference.maximum.map_search import Progress


class MethodName(str, Enum):
    """Inference methods by name."""

    AUTO = "auto"
    EXACT = "exact"
    BP = "bp"
    TRW = "trw"
    MEAN_FIELD = "meanfield"
    GIBBS = "gibbs"


class TaskName(str, Enum):
    """What the competitions ask for: marginals, log10 of the partition function, the joint maximum."""

    MAR = "MAR"
    PR = "PR"
    MAP = "MAP"


class ScheduleName(str, Enum):
    """Message schedules by name."""

    FLOODING = "flooding"
    SEQUENTIAL = "sequential"
    RESIDUAL = "residual"


_MESSAGE_OPTIONS = ("iterations", "tolerance", "damping", "schedule")
_OPTIONS_OF = {
    MethodName.AUTO: (*_MESSAGE_OPTIONS, "memory_limit"),
    MethodName.EXACT: ("memory_limit",),
    MethodName.BP: _MESSAGE_OPTIONS,
    MethodName.TRW: _MESSAGE_OPTIONS,
    MethodName.MEAN_FIELD: ("iterations", "tolerance"),
    MethodName.GIBBS: ("iterations",),
}
SECONDS = 20.0  # that a search for the joint maximum may take unless told otherwise
_TASKS_OF = {MethodName.MEAN_FIELD: (TaskName.MAR, TaskName.PR), MethodName.GIBBS: (TaskName.MAR,)}


@dataclass(frozen=True)
class MessageOptions:
    """What commands say of how messages are passed; None leaves an option to the method."""

    iterations: Annotated[
        int | None,
        typer.Option(help="Sweeps at most.", show_default="100"),
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(help="Stop when no belief changes by more in a sweep; 0 never stops.", show_default="1e-6"),
    ] = None
    damping: Annotated[
        float | None, typer.Option(help="Share of the old message kept, 0 to below 1.", show_default="0")
    ] = None
    schedule: Annotated[ScheduleName | None, typer.Option(help="Order of messages.", show_default="sequential")] = None

    def choice(self, method: MethodName, task: TaskName, seed: int, **options: Any) -> Choice:
        """A method with these options."""
        return Choice(method, task, seed, self.iterations, self.tolerance, self.damping, self.schedule, **options)


@dataclass(frozen=True)
class Choice:
    """What the user asked for; None leaves an option to the method."""

    method: MethodName
    task: TaskName
    seed: int = 0
    iterations: int | None = None
    tolerance: float | None = None
    damping: float | None = None
    schedule: ScheduleName | None = None
    memory_limit: float | None = None  # GiB
    seconds: float | None = None
    watch: Callable[[Progress], None] | None = None  # of a search

    def __post_init__(self) -> None:
        if self.task not in _TASKS_OF.get(self.method, tuple(TaskName)):
            able = [method.value for method in MethodName if self.task in _TASKS_OF.get(method, tuple(TaskName))]
            raise ValueError(
                f"--method {self.method.value} does not solve --task {self.task.value}; these do: {', '.join(able)}"
            )
        allowed = _OPTIONS_OF[self.method]
        for option in (*_MESSAGE_OPTIONS, "memory_limit"):
            if getattr(self, option) is not None and option not in allowed:
                raise ValueError(
                    f"{_flag(option)} means nothing to --method {self.method.value}, which takes "
                    f"{' '.join(map(_flag, allowed))}"
                )

        self._check_seconds()

    def _check_seconds(self) -> None:
        if self.seconds is None:
            return
        if self.task is not TaskName.MAP:
            raise ValueError(f"--seconds is for --task MAP; {self.task.value} does not use it, so leave it out")
        if self.method is not MethodName.AUTO:
            raise ValueError(f"--seconds means nothing to --method {self.method.value}; --method auto searches so long")
        if not (self.seconds > 0 and math.isfinite(self.seconds)):
            raise ValueError(f"--seconds must be a positive number, not {self.seconds:g}")

    def inference(self) -> Inference:
        """The method itself, with the options given."""
        temperature = 0.0 if self.task is TaskName.MAP else 1.0
        if self.method is MethodName.AUTO:
            return self._auto(temperature)
        if self.method is MethodName.EXACT:
            from loopwise.inference.exact.method import Exact

            return Exact(temperature=temperature, **self._memory())
        if self.method in (MethodName.BP, MethodName.TRW):
            from loopwise.inference.messages.message_passing import BP, TRW

            kind = BP if self.method is MethodName.BP else TRW
            return kind(temperature=temperature, **self._message_options())
        if self.method is MethodName.MEAN_FIELD:
            from loopwise.inference.mean_field.method import MeanField

            return MeanField(seed=self.seed, **self._given("iterations", "tolerance"))
        from loopwise.inference.gibbs.method import Gibbs

        return Gibbs(seed=self.seed, **({} if self.iterations is None else {"samples": self.iterations}))

    def _auto(self, temperature: float) -> Inference:
        from loopwise.inference.auto import Auto
        from loopwise.inference.maximum.map_search import CELLS_A_SECOND, MapSearch
        from loopwise.inference.messages.message_passing import BP

        seconds = SECONDS if self.seconds is None else self.seconds
        limits = {} if self.seconds is None else {"cell_limit": CELLS_A_SECOND * self.seconds}
        return Auto(
            temperature=temperature,
            otherwise=BP(**self._message_options()),
            search=MapSearch(seconds=seconds, seed=self.seed, watch=self.watch),
            **limits,
            **self._memory(),
        )

    def _message_options(self) -> dict[str, Any]:
        from loopwise.inference.messages.schedules import Flooding, Residual, Sequential

        schedules = {
            ScheduleName.FLOODING: Flooding,
            ScheduleName.SEQUENTIAL: Sequential,
            ScheduleName.RESIDUAL: Residual,
        }
        schedule = schedules[ScheduleName.SEQUENTIAL if self.schedule is None else self.schedule]()
        return {"schedule": schedule, **self._given("iterations", "tolerance", "damping")}

    def _memory(self) -> dict[str, Any]:
        if self.memory_limit is not None and not self.memory_limit > 0:
            raise ValueError(f"--memory-limit must be a positive number of GiB, not {self.memory_limit:g}")
        from loopwise.inference.exact.method import GIB

        return {} if self.memory_limit is None else {"memory_limit": self.memory_limit * GIB}

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
