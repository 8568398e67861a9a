r"""The speed dial: a system for each price of run time, and how they compare with other ways to be fast.

In: a trained system, data, a loss, prices. Out: a :class:`Frontier`. Stage: budget (Eisner & Stoyanov 2011, section 2:
"by varying :math:`\lambda`, we can sweep out the Pareto frontier").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

import numpy as np

from loopwise.budget.cost import Cost, MessageCost
from loopwise.budget.frontier import Frontier, Point
from loopwise.budget.measure import seconds_each, spend
from loopwise.budget.methods import BudgetCurve, FixedSweeps, Learned, PricedOptions, PricedTask
from loopwise.budget.objective import check_price
from loopwise.budget.pruning import for_system
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.evaluate import Goal, evaluate
from loopwise.learn.progress import progress_bar
from loopwise.learn.system import System
from loopwise.loss.base import Loss

PRICES = tuple(float(price) for price in np.geomspace(1e-4, 10.0, 12))  # cost-aware spec, section 3.4
DENSE = "dense"


def pareto(
    system: System,
    data: Corpus,
    loss: Loss,
    lambdas: Iterable[float] = PRICES,
    *,
    test: Corpus | None = None,
    methods: Sequence[BudgetCurve] | None = None,
    measure: Goal | None = None,
    timed: bool = False,
    keep_systems: bool = True,
    progress: bool = True,
    **options: Unpack[PricedOptions],
) -> Frontier:
    r"""Systems for all prices ``lambdas``, by each of the ``methods``: loss and cost on ``test``, all made hard.

    Parameters
    ----------
    system:
        Trained for ``loss`` alone on ``data``, with :class:`~loopwise.BP` or :class:`~loopwise.TRW`; it is not changed.
    lambdas:
        Prices of the longest dense run, in units of the loss.
    test, measure:
        What points are measured on and by; by default the training data and the loss.
    methods:
        Curves; by default learned sparsity, and fixed numbers of sweeps beside it. The dense system is always there.
    timed:
        Also measures seconds an example, on the pruned graphs.
    options:
        ``cost``: what run time is counted in; by default messages that are sent. ``rate`` (0.1), ``policy_rate`` (0.1),
        ``epochs`` (20), ``batch`` (32), ``clip``, ``seed`` and ``dev``: of training, by AdaGrad, the same for all
        methods.

    Cost: each price is a training run.
    """
    prices = tuple(float(price) for price in lambdas)
    if not prices:
        raise ValueError("there is no price to try; give at least one")
    for price in prices:
        check_price(price)
    data = system.examples(data)
    test, dev = (None if each is None else system.examples(each) for each in (test, options.get("dev")))
    cost = options.get("cost") or MessageCost()
    task = PricedTask(system, data, loss, prices=prices, **options | PricedOptions(cost=cost, dev=dev))
    curves = _standard(task) if methods is None else tuple(methods)
    judge = _Judge(data if test is None else test, loss if measure is None else measure, cost, timed, keep_systems)
    points = [judge.point(DENSE, 0.0, system)]
    with progress_bar(progress, len(curves)) as tell, ignored_convergence():
        for done, curve in enumerate(curves):
            for setting, made in curve.systems(task):
                points.append(judge.point(curve.name, setting, made))
                tell(done + 0.5, f"{curve.name} at {setting:.3g}: loss {points[-1].loss:.4g}")
    return Frontier(tuple(points), cost.unit)


class _Judge:
    def __init__(self, examples: Corpus, measure: Goal, cost: Cost, timed: bool, keep_systems: bool) -> None:
        self.examples, self.measure, self.cost = examples, measure, cost
        self.timed, self.keep_systems = timed, keep_systems

    def point(self, method: str, setting: float, system: System) -> Point:
        """Loss and cost of one system."""
        examples = for_system(self.examples, system)
        with ignored_convergence():
            loss = evaluate(system, examples, self.measure)
            spent = spend(system, examples, self.cost)
            seconds = seconds_each(system, examples) if self.timed else None
        whole = sum(group.count for group in system.graph_for(examples).groups if group.arity >= 2)
        factors = whole if isinstance(examples, Examples) else round(whole / len(examples))
        kept = system if self.keep_systems else None
        return Point(method, float(setting), spent.cost, loss, spent.sweeps, factors, seconds, kept)


def _standard(task: PricedTask) -> tuple[BudgetCurve, ...]:
    limit = task.method.iterations
    counts = tuple(sorted({count for count in (1, 2, 3, 5, 10, 20, 50) if count <= limit} | {limit}))
    return Learned(), FixedSweeps(counts)
