r"""Pruning that really shortens the run: a system on a new graph, without the weak factors.

In: a system, which factors stay. Out: a smaller :class:`System` that gives the same beliefs. Stage: budget (cost-aware
spec, section 3.3).
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.gates import Gate, Gated
from loopwise.budget.selection import Kept, Selected, Selection
from loopwise.budget.strength import Raw
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import CHUNK, System, answering
from loopwise.notices import BudgetWarning, callers_level
from loopwise.potentials.tables import TablePotentials


def prune(system: System, examples: Examples | None = None) -> System:
    r"""The system without the factors whose presence :math:`\tau(S_\alpha)` is below 1/2, on a graph of its own.

    The potentials must be :class:`~loopwise.budget.Gated`. Factors that stay keep their exponent, so that beliefs are
    those of the gated system in evaluation; train them on without a price to take the shrinkage back ("debias").
    Tables that depend on no input are folded into new :class:`~loopwise.TablePotentials`; for others give ``examples``:
    a factor is dropped if it is weak in all of them, and the new potentials compute the old ones. Where nothing of two
    or more variables is left, a warning says so.
    """
    gated = system.potentials
    if not isinstance(gated, Gated):
        raise ValueError(
            f"potentials of class {type(gated).__name__} have no gates to prune by; wrap them in lw.budget.Gated, or "
            "choose factors yourself with lw.budget.keep"
        )
    # Faded tables hold no single-variable terms any more, so dropped factors leave nothing behind.
    return keep(system, kept_factors(gated, examples), Gate(strength=Raw()))


def keep(system: System, kept: Kept, gate: Gate | None = None) -> System:
    """The system with only the factors chosen: ``kept[group]`` is bool ``[factors]``; groups not named stay whole.

    Dropped factors leave what the gate's strength does not count (by default their main effects) to unary factors.
    """
    gate = Gate() if gate is None else gate
    selection = Selection.of(system.graph, kept, gate.strength)
    if selection.everything_went:
        warnings.warn(
            "every factor of two or more variables was pruned away: only unary factors are left; lower the price",
            BudgetWarning,
            stacklevel=callers_level(),
        )
    potentials: nn.Module = Selected(system.potentials, selection)
    if needs_no_input(system.potentials):
        with answering(system):
            tables: dict[str, Tensor] = potentials()
        if all(tables[group.name].ndim == group.arity + 1 for group in selection.graph.groups):
            dtype = next((table.dtype for table in tables.values()), torch.float64)
            potentials = TablePotentials(selection.graph, tables, dtype=dtype)
    return System(potentials, system.inference, system.decoder, vocabulary=system.vocabulary, roles=system.roles)


def kept_factors(gated: Gated, examples: Examples | None = None) -> dict[str, NDArray[np.bool_]]:
    """Which factors have a presence of at least 1/2 (in some example, if they depend on inputs), by group."""
    if examples is None and not needs_no_input(gated):
        raise ValueError("these potentials depend on inputs: give examples, over which to see which factors are weak")
    parts = [examples[start : start + CHUNK].inputs for start in range(0, len(examples), CHUNK)] if examples else [{}]
    kept: dict[str, NDArray[np.bool_]] = {}
    with answering(gated):
        for inputs in parts:
            for name, share in gated.fade(**inputs).present.items():
                here = _rows(share, gated.graph.group(name)) >= 0.5
                kept[name] = here | kept[name] if name in kept else here
    return kept


def needs_no_input(potentials: nn.Module) -> bool:
    """Whether ``forward()`` needs no argument."""
    if isinstance(potentials, Gated | Selected):
        return needs_no_input(potentials.potentials)
    arguments = inspect.signature(potentials.forward).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return not any(each.default is inspect.Parameter.empty for each in arguments) and not any(
        each.kind in variadic for each in arguments
    )


def on_graph(examples: Examples, graph: FactorGraph) -> Examples:
    """The same examples over another graph of the same variables."""
    if examples.graph is graph:
        return examples
    if not np.array_equal(examples.graph.cardinalities, graph.cardinalities):
        raise ValueError(f"examples over {examples.graph!r} cannot move to {graph!r}, which has other variables")
    targets = None if examples.given_targets is None else replace(examples.given_targets, graph=graph)
    return Examples(graph, examples.values, examples.roles, examples.inputs, targets)


def _rows(share: Tensor, group: Group) -> NDArray[np.float64]:
    """The largest presence of each factor over examples."""
    wide = share.detach().double().expand(*share.shape[:-1], group.count)
    found: NDArray[np.float64] = wide.reshape(-1, group.count).amax(0).numpy()
    return found
