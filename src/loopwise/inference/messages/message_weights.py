r"""Numbers that message passing itself has: weights of messages, damping by edge, memory of variables.

In: numbers, or parameters to train. Out: :class:`MessageWeights`, given to ``lw.BP`` or ``lw.TRW`` as ``weights=``.
Stage: inference. With all weights 1, no damping and no memory, sweeps are those of BP.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.base import Problem
from loopwise.inference.messages.schedules import called


class SweepWeights(NamedTuple):
    """The numbers of one run, one row for each sweep or one for all; None where nothing was given."""

    messages: Tensor | None  # [1 or sweeps, edges]
    damping: Tensor | None  # [1 or sweeps, edges]
    memory: Tensor | None  # [1 or sweeps, variables]

    def row(self, values: Tensor, sweep: int) -> Tensor:
        """The numbers of sweep ``sweep``, counted from 1."""
        return values[sweep - 1 if len(values) > 1 else 0]


class Tied(nn.Module):
    """A few numbers, and which of them each edge (or variable) uses, in every sweep or sweep by sweep.

    Parameters
    ----------
    values: ``[numbers]``; a ``torch.nn.Parameter`` is trained, anything else is constant.
    index: whole numbers ``[edges]`` or ``[sweeps, edges]`` (for memory: variables), places in ``values``.

    Edges are numbered group by group, factor by factor, variable by variable (``graph.layout.edge_variable`` has the
    variable of each); groups of structured factors come last.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> tied = lw.inference.Tied(torch.tensor([1.0, 0.5]), [0, 1, 1, 0])  # 0.5 where a message goes to the middle
    >>> lw.BP(weights=lw.MessageWeights(graph, messages=tied)).weights.sweeps is None
    True
    """

    values: Tensor
    index: Tensor

    def __init__(self, values: Tensor | ArrayLike, index: ArrayLike) -> None:
        super().__init__()
        places = np.asarray(index)
        _keep(self, "values", values)
        if self.values.ndim != 1:
            raise ValueError(
                f"tied numbers must be of shape [numbers], not {tuple(self.values.shape)}; the index arranges them"
            )
        if places.dtype.kind not in "iu" or places.ndim not in (1, 2):
            raise ValueError(
                f"the index of tied numbers must be whole numbers [places] or [sweeps, places], not {places.dtype} of "
                f"shape {places.shape}"
            )
        count = len(self.values)
        if places.size and not 0 <= int(places.min()) <= int(places.max()) < count:
            bad = int(places.min()) if int(places.min()) < 0 else int(places.max())
            raise ValueError(f"the index of tied numbers holds {bad}; there are {count} numbers, counted from 0")
        self.register_buffer("index", torch.tensor(places.astype(np.int64)), persistent=False)

    def forward(self) -> Tensor:
        """The numbers where they are used, in the shape of the index."""
        return self.values[self.index]


class BelowOne(nn.Module):
    r"""Numbers that stay below 1 whatever training does to ``values``: :math:`1 - \log_2(1 + e^{-x})`, 0 at 0.

    For damping and memory, which have to be below 1, and have no lower bound.

    Parameters
    ----------
    values: what is trained, in the shapes that :class:`MessageWeights` takes, or :class:`Tied`.

    >>> lowest, start, highest = BelowOne(torch.tensor([-2.0, 0.0, 90.0]))().tolist()
    >>> round(lowest, 2), start, highest < 1
    (-2.07, 0.0, True)
    """

    def __init__(self, values: Tensor | Tied | ArrayLike) -> None:
        super().__init__()
        if isinstance(values, Tied):
            self.add_module("values", values)
        else:
            _keep(self, "values", values, "numbers below one")

    def forward(self) -> Tensor:
        """The numbers."""
        held: Tensor = self.values() if isinstance(self.values, nn.Module) else self.values
        return (1 - nn.functional.softplus(-held) / math.log(2)).clamp(max=LARGEST)


LARGEST = 1 - 1e-6  # damping or memory of BelowOne
Numbers = float | Tensor | ArrayLike
Strength = Numbers | Tied | BelowOne | Mapping[str, Numbers] | None


class MessageWeights(nn.Module):
    r"""Weights of messages, damping and memory, constant or sweep by sweep, to be trained like any weight.

    In sweep :math:`t` a variable's own log-potentials :math:`\theta_i` are replaced by a mix of them with the log
    belief after the sweep before, and the log messages :math:`\hat m` that its factors send on that ground are scaled
    and mixed with the old ones, and normalised:

    .. math:: \theta_i^t = (1-\gamma_i^t)\,\theta_i + \gamma_i^t\log b_i^{t-1}, \qquad
              m_{\alpha i}^t = (1-\delta_{\alpha i}^t)\,w_{\alpha i}^t\,\hat m_{\alpha i} + \delta_{\alpha i}^t\,
              m_{\alpha i}^{t-1}

    Scaled messages are "neural BP" (Nachmani, Be'ery & Burshtein 2016), memory is that of relay decoders. Where a
    value is ruled out (-inf) it stays so, whatever the numbers.

    Parameters
    ----------
    graph: the graph they are for; not needed for numbers that hold for all edges, or by the name of a group.
    messages: the weights :math:`w`, 1 by default.
    damping: the share :math:`\delta` of the old message kept, below 1, may be negative; 0 by default.
    memory: the strengths :math:`\gamma` of variables, below 1, may be negative; 0 by default.

    Each of the three is one number, or numbers ``[edges]`` (memory: ``[variables]``), ``[sweeps, 1]`` or ``[sweeps,
    edges]``; or :class:`Tied` numbers; or :class:`BelowOne`, which keeps them in range in training; or, but for memory,
    ``{group: numbers}``: one, ``[factors]`` or one for each edge of that group, sweeps in front if they differ. Give a
    ``torch.nn.Parameter`` for what is to be trained: through ``lw.Unroll()``, as a part of the ``lw.System``, with
    which it is also saved. With rows for sweeps, there are to be at least as many as ``iterations``.

    What beliefs rule out is remembered as the mean of what they say of the variable's other values.

    With weights, nothing is claimed to be exact, a bound or a fixed point. They work with flooding and groups, on both
    engines; evidence slices the numbers of what is left out of the whole. Memory starts from the log beliefs under the
    ``initial`` messages.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> potentials = lw.TablePotentials.random(graph, seed=0)
    >>> weights = lw.MessageWeights(graph, messages=torch.nn.Parameter(torch.ones(5, graph.layout.edges)))
    >>> beliefs = lw.BP(iterations=5, tolerance=0, weights=weights)(graph, potentials)
    >>> bool(torch.allclose(beliefs.states, lw.BP(iterations=5, tolerance=0)(graph, potentials).states))
    True
    >>> beliefs.states[0].backward()
    >>> weights.messages.grad.shape
    torch.Size([5, 24])
    """

    def __init__(
        self,
        graph: FactorGraph | None = None,
        *,
        messages: Strength = None,
        damping: Strength = None,
        memory: Strength = None,
    ) -> None:
        super().__init__()
        self.graph = graph
        self._groups: dict[str, tuple[str, ...] | None] = {}  # by strength: names of groups, if it is by group
        for name, given in (("messages", messages), ("damping", damping), ("memory", memory)):
            self._register(name, given)
        for name in ("messages", "damping", "memory"):
            if graph is not None:
                self._dense(name, graph)
            elif any(values.shape[-1:] not in ((), (1,)) for values, group in self._pieces(name) if group is None):
                owner = "variable" if name == "memory" else "edge"
                raise ValueError(f"{name} has a number for each {owner}: give the graph they are for as well")
        if graph is not None:
            self.check()

    def _register(self, name: str, given: Strength) -> None:
        self._groups[name] = None
        if given is None:
            self.register_parameter(name, None)
        elif isinstance(given, Tied | BelowOne):
            self.add_module(name, given)
        elif isinstance(given, Mapping):
            if name == "memory":
                raise ValueError("memory belongs to variables, not to groups of factors; give it as [variables]")
            self._groups[name] = tuple(given)
            pieces = nn.Module()
            for number, (group, values) in enumerate(given.items()):
                _keep(pieces, str(number), values, f"{name} of group {group!r}")
            self.add_module(name, pieces)
        else:
            _keep(self, name, given, name)

    def options(self) -> dict[str, object]:
        """What makes such weights again."""
        found: dict[str, object] = {"graph": self.graph}
        for name in ("messages", "damping", "memory"):
            held, groups = getattr(self, name), self._groups[name]
            found[name] = held if groups is None else {g: getattr(held, str(n)) for n, g in enumerate(groups)}
        return found

    def _pieces(self, name: str) -> Iterator[tuple[Tensor, str | None]]:
        """Numbers, and the group that they are of."""
        held, groups = getattr(self, name), self._groups[name]
        if held is None:
            return
        if groups is not None:
            yield from ((getattr(held, str(number)), group) for number, group in enumerate(groups))
        else:
            yield (held() if isinstance(held, nn.Module) else held), None

    @property
    def sweeps(self) -> int | None:
        """For how many sweeps there are numbers; None if they are the same in all."""
        rows = [len(values) for name in self._groups for values, _ in self._pieces(name) if values.ndim == 2]
        return min(rows, default=None)

    def check(self) -> None:
        """Raises if a number is not in its range: training may have moved it."""
        for name in ("messages", "damping", "memory"):
            for values, _ in self._pieces(name):
                now = values.detach()
                if not bool(torch.isfinite(now).all()):
                    raise ValueError(f"{name} of MessageWeights must hold finite numbers")
                if name != "messages" and now.numel() and not bool((now < 1).all()):
                    raise ValueError(
                        f"{name} of MessageWeights must be below 1, got {float(now.max()):g}; "
                        "lw.inference.BelowOne(...) keeps it there in training"
                    )

    def at(self, problem: Problem) -> SweepWeights:
        """The numbers of the edges and variables of ``problem``, as its graph was left by evidence."""
        self.check()
        plan, like = problem.conditioning, problem.like
        whole = problem.graph if plan is None else plan.source
        if self.graph is not None and whole is not self.graph and whole != self.graph and self._by_place():
            raise ValueError(
                f"MessageWeights for {self.graph!r} have a number for each edge or variable and do not fit {whole!r}; "
                "give numbers by group, or one for all, to use them on other graphs"
            )
        found: list[Tensor | None] = []
        for name in ("messages", "damping", "memory"):
            values = None if getattr(self, name) is None else self._dense(name, whole).to(like)
            if values is not None and plan is not None:
                kept = plan.free if name == "memory" else plan.edges
                values = values[:, torch.from_numpy(kept).to(like.device)]
            found.append(values)
        return SweepWeights(*found)

    def _by_place(self) -> bool:
        """Whether something depends on the numbering of edges or variables."""
        return any(values.shape[-1:] not in ((), (1,)) for name in self._groups for values, _ in self._pieces(name))

    def _dense(self, name: str, graph: FactorGraph) -> Tensor:
        """Numbers ``[1 or sweeps, edges or variables]`` of a whole graph."""
        count, what = (graph.variables, "variables") if name == "memory" else (graph.layout.edges, "edges")
        if self._groups[name] is None:
            for values, _ in self._pieces(name):
                return _rows(values, {count: None}, count, f"{name} of MessageWeights", f"{count} {what}")
            return torch.zeros(1, count, dtype=torch.float64)
        pieces = []
        for values, group in self._pieces(name):
            assert group is not None
            edges, factors = _edges_of(graph, group, name)
            label, sizes = f"{name} of group {group!r}", f"{factors.max(initial=-1) + 1} factors, {len(edges)} edges"
            spread = {int(factors.max(initial=-1)) + 1: factors, len(edges): None}
            pieces.append((_rows(values, spread, len(edges), label, sizes), edges))
        lengths = sorted({len(values) for values, _ in pieces} - {1})
        if len(lengths) > 1:
            raise ValueError(f"{name} of MessageWeights has groups with {lengths} sweeps; give all the same number")
        rows, default = (lengths or [1])[0], 1.0 if name == "messages" else 0.0
        dtype = torch.promote_types(torch.float32, pieces[0][0].dtype) if pieces else torch.float64
        whole = torch.full((rows, count), default, dtype=dtype, device=pieces[0][0].device if pieces else None)
        for values, edges in pieces:
            place = torch.from_numpy(edges).to(whole.device)
            whole = whole.index_copy(1, place, values.to(whole.dtype).expand(rows, -1))
        return whole

    def extra_repr(self) -> str:
        shapes = [
            f"{name}{'' if group is None else f'[{group!r}]'}={list(values.shape)}"
            for name in self._groups
            for values, group in self._pieces(name)
        ]
        return ", ".join(shapes)


def _keep(module: nn.Module, name: str, values: object, label: str = "tied numbers") -> None:
    """Registers numbers: parameters are trained, others are constants that move with the module."""
    if isinstance(values, nn.Parameter):
        module.register_parameter(name, values)
    else:
        try:
            tensor = values if isinstance(values, Tensor) else torch.tensor(np.asarray(values, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"{label} of MessageWeights must be numbers, not {values!r}") from None
        if tensor.requires_grad:
            raise ValueError(f"{label} of MessageWeights want a gradient; give them as a torch.nn.Parameter")
        module.register_buffer(name, tensor)
    if not getattr(module, name).is_floating_point():
        raise ValueError(f"{label} of MessageWeights must be floating-point numbers, not {getattr(module, name).dtype}")


def _rows(values: Tensor, spread: Mapping[int, Integers | None], count: int, label: str, sizes: str) -> Tensor:
    """``values`` as ``[1 or sweeps, count]``; ``spread``: by how many there are, which of them each place uses."""
    if values.ndim > 2 or (values.ndim and values.shape[-1] != 1 and values.shape[-1] not in spread):
        raise ValueError(
            f"{label} has shape {tuple(values.shape)}, which does not fit {sizes}: give one number or one for each, "
            "with an axis of sweeps in front if they differ"
        )
    values = values if values.ndim == 2 else values.reshape(1, values.shape[-1] if values.ndim else 1)
    place = spread.get(values.shape[-1])
    if values.shape[-1] != 1 and place is not None:
        return values[:, torch.from_numpy(place).to(values.device)]
    return values.expand(-1, count)


def _edges_of(graph: FactorGraph, name: str, what: str) -> tuple[Integers, Integers]:
    """The edges of the groups that go by ``name``, and for each its factor among theirs."""
    layout = graph.layout
    factor, first = np.zeros(0, dtype=np.int64), 0
    for group, count in layout.named_factors:
        if called(group, (name,)) == name:
            factor = np.concatenate([factor, np.arange(first, first + count)])
        first += count
    empty = [group.name for group in graph.groups if group.arity > 1] + [group.name for group in graph.structured]
    if not len(factor) and all(called(group, (name,)) != name for group in empty):
        known = [group for group, _ in layout.named_factors]
        raise ValueError(
            f"{what} of MessageWeights names the group {name!r}; the groups of the graph that send messages are {known}"
        )
    edges = np.flatnonzero(np.isin(layout.edge_factor, factor))
    return edges, np.searchsorted(factor, layout.edge_factor[edges])
