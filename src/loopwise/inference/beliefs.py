"""What inference returns: marginals, a log-partition estimate, and an honest status.

In: the results of one run. Out: :class:`Beliefs`. Stage: inference. Factor beliefs and the log-partition
function are computed when first asked for, since large graphs often need neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Report
from loopwise.graph.factor_graph import FactorGraph, variable_range
from loopwise.inference.named import NamedTable
from loopwise.notebook import Shown
from loopwise.notices import ChangedError

if TYPE_CHECKING:
    from loopwise.inference.maximum.method import Maximum


Call = tuple[Any, FactorGraph, Any, Any]  # the method, the graph, potentials and evidence as they were given
Noted = tuple[tuple[str, str, Tensor, int], ...]  # what tensors are called, the tensor's name there, it, its version


@dataclass(frozen=True, eq=False)
class Status(Shown):
    """How far the result of one inference call can be trusted.

    ``sweeps`` and ``residual`` are per example, in the shape of the batch; ``residual`` is the largest change
    of a belief in the last sweep; where beliefs rest but normalised log messages do not, what these can move one by (a
    quarter of their change in nats); with the residual schedule, the largest such change still pending; 0 where no
    message can change any more.
    ``stopped`` says which of the rules ``stop_rules`` ended each example, where the method has such rules; being ended
    by one says nothing of convergence.
    ``maximum`` (at temperature 0) has the score of the configuration found, an upper bound and the gap, each computed
    when first asked for; printing the status shows what has been.
    """

    method: str
    exact: bool
    converged: bool
    sweeps: Tensor  # int64 [*batch]
    residual: Tensor  # [*batch]
    messages: int = 0  # sent in all, over all examples
    engine: str = ""
    domain: str = "probability"  # or "log", or "probability and log" where some examples needed it
    notes: tuple[str, ...] = field(default=())
    maximum: Maximum | None = None
    stopped: Tensor | None = None  # int64 [*batch], places in stop_rules; -1 where sweeps ran to their limit
    stop_rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.exact:
            head = "exact"
        elif self.converged or not self._ended():
            head = "approximate, " + ("converged" if self.converged else "NOT CONVERGED")
        else:
            head = f"approximate, {self._ended()}"
        parts = [f"{self.method}: {head}"]
        if self.sweeps.numel() and int(self.sweeps.max()) > 0:
            low, high = int(self.sweeps.min()), int(self.sweeps.max())
            parts.append(f"{low if low == high else f'{low} to {high}'} sweep{'' if high == 1 else 's'}")
            parts.append(f"residual {float(self.residual.max()):.2g}")
        if self.messages:
            parts.append(f"{self.messages} messages")
        if self.engine:
            parts.append(f"{self.engine} engine")
        if self.maximum is not None and self.maximum.known:
            parts.append(str(self.maximum))
        return ", ".join([*parts, *self.notes])

    def _ended(self) -> str:
        """Which rules ended the run, if others than a tolerance did."""
        if self.stopped is None or not self.stopped.numel():
            return ""
        counts = {name: int((self.stopped == place).sum()) for place, name in enumerate(self.stop_rules)}
        if not any(count for name, count in counts.items() if name != "Tolerance"):
            return ""
        counts["the limit of sweeps"] = int((self.stopped < 0).sum())
        fired = [(name, count) for name, count in counts.items() if count]
        if len(fired) == 1:
            return f"stopped by {fired[0][0]}"
        return "stopped by " + " and ".join(f"{name} ({count} of {self.stopped.numel()})" for name, count in fired)


class Beliefs(Shown):
    """Marginals of variables and factors, log-partition function and status of one inference call.

    All tensors have the batch dimensions of the call in front.

    Parameters
    ----------
    graph: of which they are.
    states: beliefs of variables, one after another.
    factors, log_partition, status, messages, assignment, bounds: functions that work these out when first asked for,
        where a method has them.
    trace: beliefs of every sweep, if they were kept.
    gradient: what the backward will report.

    >>> import loopwise as lw
    >>> graph = lw.chain(2)
    >>> beliefs = lw.BP()(graph, lw.TablePotentials(graph))
    >>> beliefs.variables.tolist(), tuple(beliefs.factor("pair").shape), round(float(beliefs.log_partition.exp()))
    ([[0.5, 0.5], [0.5, 0.5]], (1, 2, 2), 4)
    """

    def __init__(
        self,
        graph: FactorGraph,
        states: Tensor,
        factors: Callable[[str], Tensor],
        log_partition: Callable[[], Tensor],
        status: Status | Callable[[], Status],
        messages: Callable[[], Tensor] | None = None,
        assignment: Callable[[], Tensor] | None = None,
        *,
        trace: Tensor | None = None,
        gradient: Report | None = None,
        bounds: Callable[[], tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        self.graph = graph
        self.states = states  # [*batch, states]: the marginals of all variables, one after another
        if isinstance(status, Status):
            self.status = status
        else:
            self._status_source = status
        self.trace = trace  # [sweeps + 1, *batch, states]: the same after each sweep, if the method kept it
        self.gradient = gradient  # what the last backward through these beliefs did
        self._factor_source = factors
        self._factors: dict[str, Tensor] = {}
        self._log_partition_source = log_partition
        self._messages_source = messages
        self._assignment_source = assignment
        self._bounds_source = bounds
        self._given: Noted = ()
        self._recording = torch.is_grad_enabled()  # at the call, not when a part is first read

    call: Call | None = None  # how these beliefs were asked for, if a method did

    def __repr__(self) -> str:
        return f"Beliefs({self.graph!r}; {self.status})"

    @cached_property
    def status(self) -> Status:
        """How far all this can be trusted."""
        return self._status_source()

    def remember(self, called: str, given: Iterable[tuple[str, Tensor]]) -> None:
        """Notes the state of further tensors that parts not yet computed depend on; ``called`` is what a message calls
        them, with a place for the name of each."""
        self._given += noted(called, given)
        status: Status | None = self.__dict__.get("status")  # one that is not made yet has no maximum
        if status is not None and status.maximum is not None:
            status.maximum.guard = partial(check_unchanged, self._given)

    def check_unchanged(self) -> None:
        """Raises a :class:`~loopwise.notices.ChangedError` if a tensor that was given was written to since."""
        check_unchanged(self._given)

    @property
    def batch_shape(self) -> torch.Size:
        return self.states.shape[:-1]

    def marginal(self, variable: int) -> Tensor:
        """Marginal of one variable, ``[*batch, cardinality]``."""
        start = self.graph.layout.state_start
        if isinstance(variable, str):
            raise ValueError(f"a variable goes by its number here, not {variable!r}; beliefs[{variable!r}] takes names")
        if not 0 <= variable < self.graph.variables:
            raise ValueError(f"no variable {variable}; {variable_range(self.graph.variables)}")
        return self.states[..., start[variable] : start[variable + 1]]

    def __getitem__(self, name: str) -> NamedTable:
        """The marginal of the variable that the graph's vocabulary calls ``name``, with the names of its values.

        >>> import loopwise as lw
        >>> names = lw.formats.Vocabulary(("flu",), (("no", "yes"),))
        >>> graph = lw.FactorGraph([2], {"bias": [[0]]}, vocabulary=names)
        >>> flu = lw.BP()(graph, {"bias": torch.tensor([[0.0, 1.0]])})["flu"]
        >>> flu
        flu: no 0.2689, yes 0.7311
        >>> round(flu["yes"], 3)
        0.731
        """
        vocabulary = self.graph.vocabulary
        if vocabulary is None:
            raise ValueError(
                f"the graph does not say which variable is called {name!r}; give it a vocabulary, or ask marginal() "
                "for a variable by its number"
            )
        place = vocabulary.variable(name)
        return NamedTable(name, vocabulary.labels[place], self.marginal(place))

    def to_frame(self, backend: str | None = None) -> Any:
        """All marginals as a data frame with a row for each value: ``variable``, ``value``, ``probability``.

        Of a batch, ``example`` comes first. Names are those of the graph's vocabulary, without one they are numbers.
        ``backend``: ``"pandas"``, ``"polars"`` or another that narwhals knows; by default the first that is installed.
        """
        from loopwise.formats.frames import make_frame

        layout, graph = self.graph.layout, self.graph
        known = graph.vocabulary
        places = layout.state_variable
        values = np.arange(layout.states) - layout.state_start[places]
        names: list[object] = [place if known is None else known.names[place] for place in places.tolist()]
        labels: list[object] = [
            known.labels[place][value] if known is not None and value < len(known.labels[place]) else value
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        ]
        columns: dict[str, Any] = {}
        flat = self.states.detach().cpu().double().reshape(-1, layout.states)
        if self.batch_shape:
            columns["example"] = np.repeat(np.arange(len(flat)), layout.states).tolist()
        columns |= {"variable": names * len(flat), "value": labels * len(flat)}
        columns["probability"] = flat.reshape(-1).tolist()
        return make_frame(columns, backend)

    @cached_property
    def variables(self) -> Tensor:
        """Marginals of all variables, ``[*batch, variables, largest cardinality]``, padded with zeros."""
        graph = self.graph
        if graph.uniform_cardinality is not None:
            return self.states.reshape(*self.batch_shape, graph.variables, graph.uniform_cardinality)
        width = int(graph.cardinalities.max(initial=0))
        layout = graph.layout
        value = np.arange(layout.states) - layout.state_start[layout.state_variable]
        place = layout.state_variable * width + value
        full = self.states.new_zeros(*self.batch_shape, graph.variables * width)
        full = full.index_copy(-1, torch.tensor(place, device=full.device), self.states)
        return full.reshape(*self.batch_shape, graph.variables, width)

    def factor(self, name: str) -> Tensor:
        """Marginals of the factors of group ``name``, ``[*batch, factors, *shape]``; of structured factors the
        marginals of their variables, ``[*batch, slots]``."""
        if name not in self._factors:
            if self.graph.structured_group(name) is None:
                self.graph.group(name)  # raises for an unknown name
            self.check_unchanged()
            with torch.set_grad_enabled(self._recording):
                self._factors[name] = self._factor_source(name)
        return self._factors[name]

    @cached_property
    def log_partition(self) -> Tensor:
        """Estimate of the log-partition function, ``[*batch]``: exact only if the status says so."""
        self.check_unchanged()
        with torch.set_grad_enabled(self._recording):
            return self._log_partition_source()

    @property
    def has_bounds(self) -> bool:
        """Whether :attr:`log_partition_bounds` can be asked for."""
        return self.status.exact or self._bounds_source is not None

    @cached_property
    def log_partition_bounds(self) -> tuple[Tensor, Tensor]:
        """Two numbers between which the log-partition function lies, each ``[*batch]``, without gradient.

        Computed when first asked for: both are ``log_partition`` where that is exact; otherwise mean field and TRW run
        once more on the same problem. -inf or inf where no bound was found.

        Returns
        -------
        lower, upper

        >>> import loopwise as lw
        >>> graph = lw.grid(5, 5)
        >>> potentials = lw.TablePotentials.random(graph, seed=0)
        >>> lower, upper = lw.BP()(graph, potentials).log_partition_bounds
        >>> bool(lower < lw.Exact()(graph, potentials).log_partition < upper)
        True
        """
        if self.status.exact:
            value = self.log_partition.detach()
            return value, value
        if self._bounds_source is None:
            raise ValueError(f"{self.status.method} has no bounds of log Z; ask the beliefs of lw.BP() or lw.infer()")
        self.check_unchanged()
        return self._bounds_source()

    @cached_property
    def messages(self) -> Tensor:
        """Final factor-to-variable log messages ``[*batch, slots]``, to be given back as ``initial``."""
        if self._messages_source is None:
            raise ValueError(f"{self.status.method} passes no messages; run lw.BP() or lw.TRW() to have some")
        with torch.set_grad_enabled(self._recording):
            return self._messages_source()

    @cached_property
    def assignment(self) -> Tensor:
        """The most probable values, ``[*batch, variables]``.

        After max-product (temperature 0) or exact MAP inference this is the method's joint assignment;
        otherwise it is each variable's most probable value (posterior marginal decoding).
        """
        if self._assignment_source is not None:
            self.check_unchanged()
            return self._assignment_source()
        if self.graph.variables == 0:
            return torch.zeros(*self.batch_shape, 0, dtype=torch.int64, device=self.states.device)
        return self.variables.argmax(-1)


def noted(called: str, given: Iterable[tuple[str, Tensor]]) -> Noted:
    """The state of tensors now, for :func:`check_unchanged`."""
    return tuple([(called, name, value, value._version) for name, value in given if not value.is_inference()])


def check_unchanged(given: Noted) -> None:
    """Raises a :class:`~loopwise.notices.ChangedError` if a tensor was written to since it was noted."""
    for called, name, value, version in given:
        if value._version != version:
            raise ChangedError(
                f"{called.format(name)} changed in place since inference, so this part of its beliefs can no longer be "
                "computed; read it before, or give inference a copy"
            )
