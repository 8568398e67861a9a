r"""Pruning that really shortens the run: a system on a new graph, without the weak factors.

In: a system, which factors stay. Out: a smaller :class:`System` that gives the same beliefs. Stage: budget (cost-aware
spec, section 3.3).
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.gated_template import GatedTemplate, WithoutGroups
from loopwise.budget.gates import Gate, Gated
from loopwise.budget.selection import Kept, Selected, Selection
from loopwise.budget.strength import Raw
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.template_examples import Corpus, TemplateExamples
from loopwise.learn.system import CHUNK, System, answering
from loopwise.notices import BudgetWarning, warn
from loopwise.potentials.tables import TablePotentials


def prune(system: System, examples: Corpus | None = None) -> System:
    r"""The system without the factors whose presence :math:`\tau(S_\alpha)` is below 1/2, on a graph of its own.

    The potentials must be :class:`~loopwise.budget.Gated`. Factors that stay keep their exponent, so that beliefs are
    those of the gated system in evaluation; train them on without a price to take the shrinkage back ("debias").
    Tables that depend on no input are folded into new :class:`~loopwise.TablePotentials`; for others give ``examples``:
    a factor is dropped if it is weak in all of them, and the new potentials compute the old ones. Where nothing of two
    or more variables is left, a warning says so. Of a :class:`~loopwise.budget.GatedTemplate` whole groups go, those
    that are weak in all ``examples``.
    """
    gated = system.potentials
    if isinstance(gated, GatedTemplate):
        return _without_groups(system, gated, examples)
    if not isinstance(gated, Gated):
        raise ValueError(
            f"potentials of class {type(gated).__name__} have no gates to prune by; wrap them in lw.budget.Gated, or "
            "choose factors yourself with lw.budget.keep"
        )
    # Faded tables hold no single-variable terms any more, so dropped factors leave nothing behind.
    assert examples is None or isinstance(examples, Examples)
    return keep(system, kept_factors(gated, examples), Gate(strength=Raw()))


def _without_groups(system: System, gated: GatedTemplate, examples: Corpus | None) -> System:
    """The system without the groups of a template of which no factor is present in any of the examples."""
    if examples is None:
        raise ValueError("factors of a template are those of its examples: give examples, to see which groups are weak")
    present: dict[str, bool] = {}
    with answering(system):
        for part in system.examples(examples).batches(CHUNK):
            assert isinstance(part, TemplateExamples)
            for name, share in gated.fade(part.batch).present.items():
                here = bool((share >= 0.5).any()) and part.graph.group(name).count > 0
                present[name] = present.get(name, False) or here
    gone = [name for name, there in present.items() if not there]
    if gone and len(gone) == len(present):
        _warn_of_nothing_left()
    return System(WithoutGroups(gated, gone), system.inference, system.decoder)


def _warn_of_nothing_left() -> None:
    warn(
        "every factor of two or more variables was pruned away: only unary factors are left; lower the price",
        BudgetWarning,
    )


def keep(system: System, kept: Kept, gate: Gate | None = None) -> System:
    """The system with only the factors chosen: ``kept[group]`` is bool ``[factors]``; groups not named stay whole.

    Dropped factors leave what the gate's strength does not count (by default their main effects) to unary factors.
    """
    gate = Gate() if gate is None else gate
    selection = Selection.of(system.graph, kept, gate.strength)
    if selection.everything_went:
        _warn_of_nothing_left()
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


def for_system(examples: Corpus, system: System) -> Corpus:
    """The same examples as ``system`` takes them: over its graph, or of its template."""
    if isinstance(examples, Examples):
        return on_graph(examples, system.graph)
    if examples.template is system.potentials:
        return examples
    return system.examples(examples.examples)


def _rows(share: Tensor, group: Group) -> NDArray[np.float64]:
    """The largest presence of each factor over examples."""
    wide = share.detach().double().expand(*share.shape[:-1], group.count)
    found: NDArray[np.float64] = wide.reshape(-1, group.count).amax(0).numpy()
    return found
