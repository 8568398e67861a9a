r"""Ways to trade loss for run time, each a curve of systems.

In: a :class:`PricedTask` (a trained dense system and data). Out: systems, from dear to cheap. Stage: budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypedDict

from torch import Tensor

from loopwise.budget.baselines import fit_with_prior, own_weights, random_factors, strongest
from loopwise.budget.budgeted import Smoothing
from loopwise.budget.cost import Cost
from loopwise.budget.gated_template import GatedTemplate
from loopwise.budget.gates import MEDIAN, Gate, Gated
from loopwise.budget.policy_fit import PolicyFit, fit_policy
from loopwise.budget.pruning import for_system, on_graph, prune
from loopwise.budget.smoothing import Falling
from loopwise.budget.stopping import Stopping
from loopwise.budget.training import fit as fit_budget
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.messages.features import Feature
from loopwise.inference.messages.message_passing import MessagePassing
from loopwise.inference.messages.policy import Policy
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.fit import fit
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.plan import FitKeywords
from loopwise.learn.system import CHUNK, System, answering
from loopwise.loss.base import Loss
from loopwise.potentials.priors import L1, GroupSparsity
from loopwise.potentials.template import Template

STOPS = 10  # a fresh policy stops after each sweep with probability 1 / min(this, the limit)


class PricedOptions(TypedDict, total=False):
    """How all methods of one comparison train, and what costs are counted in: fields of :class:`PricedTask`."""

    cost: Cost
    epochs: int
    batch: int
    rate: float
    policy_rate: float
    clip: float | None
    seed: int
    dev: Corpus | None


@dataclass(frozen=True, eq=False)
class PricedTask:
    """What all methods of one comparison share. ``dense``: trained for the loss alone; nothing changes it."""

    dense: System
    examples: Corpus
    loss: Loss
    cost: Cost
    prices: tuple[float, ...]
    epochs: int = 20
    batch: int = 32
    rate: float = 0.1
    policy_rate: float = 0.1
    clip: float | None = None
    seed: int = 0
    dev: Corpus | None = None

    @property
    def training(self) -> FitKeywords:
        """How :func:`loopwise.fit` is told to train."""
        return FitKeywords(epochs=self.epochs, batch=self.batch, clip=self.clip, seed=self.seed, progress=False)

    def dev_for(self, system: System) -> Corpus | None:
        """Development data on the graph of ``system``."""
        return None if self.dev is None else for_system(self.dev, system)

    @property
    def method(self) -> MessagePassing:
        """How the dense system passes messages."""
        inference = self.dense.inference
        if not isinstance(inference, MessagePassing):
            raise ValueError(
                f"inference must be lw.BP or lw.TRW for a sweep over prices, not {type(inference).__name__}"
            )
        return inference

    def refit(self, system: System, epochs: int) -> System:
        """``system`` trained on for the loss alone."""
        if epochs and any(True for _ in system.parameters()):
            fit(
                system,
                for_system(self.examples, system),
                self.loss,
                optimizer=lambda params: AdaGradCOMID(params, rate=self.rate),
                **self.training | FitKeywords(epochs=epochs, dev=self.dev_for(system)),
            )
        return system


Made = tuple[float, System]  # a setting and the system it gave


class BudgetCurve(ABC):
    """A curve."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the curve is called."""

    @abstractmethod
    def systems(self, task: PricedTask) -> Iterator[Made]:
        """Settings and the systems they give, each as it would be deployed."""


@dataclass(frozen=True)
class Learned(BudgetCurve):
    r"""Gates, a stopping policy, or both, trained with the model for :math:`\ell+\lambda\,t_{run}`, then made hard.

    ``gate``: None leaves all factors. ``median``: strength is measured in a unit in which the dense system's median
    factor has this one; None takes the gate's own unit. ``features``: those of the policy, which is fitted
    to the model before and after they are trained together; empty: all sweeps are made. ``continued``: each price goes
    on from the weights of the last one, else each starts from the dense system, as published. ``refit``:
    epochs of training without the price after pruning ("debias"). ``detach_features``: as for :class:`Stopping`.
    ``whole``: factors are made stronger first, so that gates leave the dense system as it is (:meth:`Gate.boosts`);
    else training begins with its faded copy.
    """

    gate: Gate | None = field(default_factory=Gate)
    features: Sequence[Feature] = ()
    median: float | None = MEDIAN
    smoothing: Smoothing = field(default_factory=partial(Smoothing, width=Falling(0.3, 0.8, 0.03)))
    policy_fit: PolicyFit = field(default_factory=PolicyFit)
    continued: bool = False
    refit: int = 0
    title: str = ""
    detach_features: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.gate is None and not self.features:
            raise ValueError("there is nothing to learn: give a gate, features of a policy, or both")

    @property
    def name(self) -> str:
        if self.title:
            return self.title
        parts = (["learned sparsity"] if self.gate else []) + (["learned stopping"] if self.features else [])
        return " and ".join(parts) + (", refitted" if self.refit else "")

    def systems(self, task: PricedTask) -> Iterator[Made]:
        current = self._start(task)
        for price in sorted(task.prices):
            if not self.continued:
                current = self._start(task)
            mine = for_system(task.examples, current)
            if self.features:
                fit_policy(current, mine, task.loss, price, cost=task.cost, how=self.policy_fit)
            fit_budget(
                current,
                mine,
                task.loss,
                price,
                cost=task.cost,
                smoothing=self.smoothing,
                optimizer=lambda groups: AdaGradCOMID(groups, rate=task.rate),
                policy_rate=task.policy_rate,
                standardise=False,
                **task.training | FitKeywords(dev=task.dev_for(current)),
            )
            if self.features:
                fit_policy(current, mine, task.loss, price, cost=task.cost, how=self.policy_fit, fresh=False)
            yield price, self._hard(task, current)

    def _start(self, task: PricedTask) -> System:
        dense = task.dense
        inference: Stopping | MessagePassing = task.method
        if self.features:
            policy = Policy(self.features, stops=1.0 / max(2, min(STOPS, task.method.iterations)))
            inference = Stopping(task.method, policy, self.detach_features)
        own = own_weights(dense, inference)
        if self.gate is None:
            return own
        first = task.examples[: min(CHUNK, len(task.examples))]
        with answering(dense):
            tables = dense.tables(first)
        gate = self._unit(dense.graph_for(first), tables)
        if isinstance(own.potentials, Template):
            if self.whole:
                raise ValueError("gates of a template have no boosts to begin with the dense system; leave out whole")
            return System(GatedTemplate(own.potentials, gate), own.inference, dense.decoder)
        gated = Gated(own.potentials, gate, boosts=gate.boosts(dense.graph, tables) if self.whole else None)
        return System(
            gated, own.inference, dense.decoder, graph=dense.graph, vocabulary=dense.vocabulary, roles=dense.roles
        )

    def _unit(self, graph: FactorGraph, tables: Mapping[str, Tensor]) -> Gate:
        assert self.gate is not None
        return self.gate if self.median is None else self.gate.scaled_to(graph, tables, self.median)

    def _hard(self, task: PricedTask, current: System) -> System:
        """A deployable copy."""
        current = own_weights(current)
        if self.gate is None:
            return current
        mine = for_system(task.examples, current)
        hard = prune(current, mine if not isinstance(mine, Examples) or mine.inputs else None)
        return task.refit(hard, self.refit)


@dataclass(frozen=True)
class Lasso(BudgetCurve):
    """L1 on the cells of tables, by proximal steps; a factor goes when all of its cells are 0.

    ``continued``: each strength goes on from the last one's system, on the graph that is left, else each starts from
    the dense one.
    """

    strengths: tuple[float, ...]
    refit: int = 0
    continued: bool = False

    @property
    def name(self) -> str:
        return "L1, refitted" if self.refit else "L1"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        return _path(task, [(strength, L1(strength)) for strength in self.strengths], self.refit, self.continued)


@dataclass(frozen=True)
class GroupLasso(BudgetCurve):
    """A penalty on whole tables, by proximal steps: factors go as wholes. ``continued`` as for :class:`Lasso`."""

    strengths: tuple[float, ...]
    refit: int = 0
    continued: bool = False

    @property
    def name(self) -> str:
        return "group lasso, refitted" if self.refit else "group lasso"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        return _path(
            task, [(strength, GroupSparsity(strength)) for strength in self.strengths], self.refit, self.continued
        )


@dataclass(frozen=True)
class Magnitude(BudgetCurve):
    """The strongest factors of the dense system, trained on. ``counts``: how many stay."""

    counts: tuple[int, ...]
    refit: int = 10
    gate: Gate = field(default_factory=Gate)

    @property
    def name(self) -> str:
        return "magnitude"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        for count in self.counts:
            yield count, task.refit(strongest(task.dense, count, self.gate), self.refit)


@dataclass(frozen=True)
class RandomFactors(BudgetCurve):
    """Factors drawn at random, trained on: the least one should beat."""

    counts: tuple[int, ...]
    refit: int = 10
    gate: Gate = field(default_factory=Gate)

    @property
    def name(self) -> str:
        return "random"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        for count in self.counts:
            yield count, task.refit(random_factors(task.dense, count, task.seed, self.gate), self.refit)


@dataclass(frozen=True)
class FixedSweeps(BudgetCurve):
    """The dense system with so many sweeps, trained on for them for ``refit`` epochs."""

    counts: tuple[int, ...]
    refit: int = 0

    @property
    def name(self) -> str:
        return "fixed sweeps"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        for count in self.counts:
            method = replace(task.method, iterations=count, tolerance=0.0, stop=None)
            yield count, task.refit(own_weights(task.dense, method), self.refit)


@dataclass(frozen=True)
class FixedTolerance(BudgetCurve):
    """The dense system stopped where no belief changes by more than a threshold, trained on for that."""

    tolerances: tuple[float, ...]
    refit: int = 0

    @property
    def name(self) -> str:
        return "fixed tolerance"

    def systems(self, task: PricedTask) -> Iterator[Made]:
        for tolerance in self.tolerances:
            method = replace(task.method, tolerance=tolerance)
            yield tolerance, task.refit(own_weights(task.dense, method), self.refit)


def _path(
    task: PricedTask, priors: list[tuple[float, L1 | GroupSparsity]], refit: int, continued: bool
) -> Iterator[Made]:
    start = task.dense
    if not isinstance(task.examples, Examples):
        raise ValueError("penalties on tables choose factors of one graph, and examples of a template have one each")
    for strength, prior in sorted(priors, key=lambda pair: pair[0]) if continued else priors:
        found = fit_with_prior(
            start,
            on_graph(task.examples, start.graph),
            task.loss,
            prior,
            rate=task.rate,
            **task.training,
        )
        if continued and any(group.arity >= 2 for group in found.graph.groups):
            start = own_weights(found)  # before anybody trains it on
        yield strength, task.refit(found, refit)
