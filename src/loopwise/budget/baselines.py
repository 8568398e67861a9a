r"""Other ways to fewer factors: L1, group lasso, magnitude and random pruning.

In: a trained dense system. Out: sparser systems on graphs of their own. Stage: budget (cost-aware spec, section 4).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.budget.gates import Gate
from loopwise.budget.pruning import keep
from loopwise.budget.strength import Raw
from loopwise.budget.training import USUAL
from loopwise.inference.base import Inference
from loopwise.learn.data.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.plan import FitKeywords
from loopwise.learn.system import System, answering
from loopwise.loss.base import Loss
from loopwise.potentials.priors import Prior
from loopwise.potentials.tables import TablePotentials
from loopwise.potentials.template import Template


def fit_with_prior(
    system: System,
    examples: Examples,
    loss: Loss,
    prior: Prior,
    *,
    rate: float = 0.1,
    **options: Unpack[FitKeywords],
) -> System:
    """Trains a copy of the system's tables for loss and penalty by proximal AdaGrad; the system without zero factors.

    Only tables of two or more variables are penalised. ``options``: as of :func:`loopwise.budget.fit`.
    """
    dense = copied(system)
    tables = list(zip(dense.potentials.parameters(), dense.graph.groups, strict=True))
    pairs = [table for table, group in tables if group.arity >= 2]
    others = [table for table, group in tables if group.arity < 2]
    groups = [{"params": pairs, "prior": prior}, *([{"params": others}] if others else [])]
    optimizer = AdaGradCOMID(groups, rate=rate)
    fit(dense, examples, loss, optimizer=optimizer, **USUAL | options)
    return without_zeros(dense)


def without_zeros(system: System, below: float = 0.0) -> System:
    """The system without the factors all of whose cells are at most ``below`` in magnitude.

    With 0 only exact zeros go, as a proximal step makes them; subgradient methods need a small number here.
    """
    with answering(system):
        tables: Mapping[str, Tensor] = system.potentials()
    kept = {}
    for group in system.graph.groups:
        if group.arity >= 2:
            size = tables[group.name].detach().abs().flatten(1).amax(1).expand(group.count)
            kept[group.name] = (size > below).numpy()
    return keep(system, kept, Gate(strength=Raw()))


def strongest(system: System, count: int, gate: Gate | None = None) -> System:
    """The system with only the ``count`` strongest factors: magnitude pruning."""
    gate = Gate() if gate is None else gate
    with answering(system):
        found = gate.strengths(system.graph, system.potentials())
    sizes = {
        name: strength.detach().double().expand(system.graph.group(name).count).numpy()
        for name, strength in found.items()
    }
    return keep(system, _largest(sizes, count), gate)


def random_factors(system: System, count: int, seed: int, gate: Gate | None = None) -> System:
    """The system with only ``count`` factors, drawn uniformly."""
    gate = Gate() if gate is None else gate
    rng = np.random.default_rng(seed)
    groups = gate.gated_groups(system.graph)
    return keep(system, _largest({group.name: rng.random(group.count) for group in groups}, count), gate)


def copied(system: System) -> System:
    """The system with tables of its own, which can be trained without changing it."""
    if not isinstance(system.potentials, TablePotentials):
        raise ValueError(
            f"a penalty on factors needs free tables (lw.TablePotentials), not {type(system.potentials).__name__}"
        )
    return own_weights(system)


def own_weights(system: System, inference: Inference | None = None) -> System:
    """The system with a copy of its weights (the graph is shared), and with other inference if given."""
    method = system.inference if inference is None else inference
    if isinstance(system.potentials, Template):
        return System(*copy.deepcopy((system.potentials, method)), system.decoder)
    potentials, method = copy.deepcopy((system.potentials, method), {id(system.graph): system.graph})
    return System(
        potentials, method, system.decoder, graph=system.graph, vocabulary=system.vocabulary, roles=system.roles
    )


def _largest(sizes: Mapping[str, NDArray[np.float64]], count: int) -> dict[str, NDArray[np.bool_]]:
    """Which entries are among the ``count`` largest of all; the first ones where they tie."""
    total = sum(len(values) for values in sizes.values())
    if not 0 <= count <= total:
        raise ValueError(f"there are {total} factors to choose from, so {count} of them cannot be kept; keep fewer")
    order = np.argsort(-np.concatenate(list(sizes.values())), kind="stable")
    chosen = np.zeros(total, dtype=bool)
    chosen[order[:count]] = True
    kept, start = {}, 0
    for name, values in sizes.items():
        kept[name] = chosen[start : start + len(values)]
        start += len(values)
    return kept
