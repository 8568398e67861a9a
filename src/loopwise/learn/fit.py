"""Training a system for its goal: the one call, and what it promises.

In: a system, examples, a goal. Out: changed weights, a :class:`History`. Stage: learning. What is done in an epoch is
in :mod:`loopwise.learn.training`, what comes around it in :mod:`loopwise.learn.trainer`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from loopwise.formats.files import PathLike
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.callbacks import as_callbacks
from loopwise.learn.data.batching import BatchSize
from loopwise.learn.distributed import team as processes
from loopwise.learn.evaluate import Goal
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.history import History
from loopwise.learn.objective import Callback
from loopwise.learn.plan import FitPlan, MakeOptimizer, MakeSchedule
from loopwise.learn.progress import progress_bar
from loopwise.learn.stages import Goals
from loopwise.learn.system import Given, System
from loopwise.learn.trainer import Limits, train
from loopwise.learn.training import SystemObjective
from loopwise.potentials.priors import Prior


def fit(
    system: System,
    examples: Given,
    goal: Goals,
    *,
    optimizer: MakeOptimizer | torch.optim.Optimizer | None = None,
    epochs: int = 25,
    batch: BatchSize | None = None,
    dev: Given = None,
    measure: Goal | None = None,
    patience: int | None = None,
    seed: int = 0,
    clip: float | None = None,
    prior: Prior | None = None,
    schedule: MakeSchedule | None = None,
    restarts: int = 1,
    start: float | None = None,
    checkpoint: PathLike | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = True,
    by_pattern: bool | None = None,
) -> History:
    r"""Changes the weights of ``system`` so that ``goal`` is small on ``examples``: empirical risk minimisation.

    .. math:: \min_\theta\ \frac1n\sum_k \ell\big(d(b_\theta(x^k)), y^k\big) + R(\theta)

    through the whole system, its truncated inference included (Stoyanov et al. 2011, eq. 4). The same seed and number
    of threads give the same weights, bit for bit.

    Parameters
    ----------
    examples:
        :class:`Examples`, or with a template a list of its examples (or :class:`TemplateExamples`).
    goal:
        A loss of the (soft) decisions, a likelihood, or stages: :func:`~loopwise.learn.staged`,
        :func:`~loopwise.learn.hybrid`, or :class:`~loopwise.learn.Stage` objects of your own.
    optimizer:
        A class, a function of the parameters that makes an optimiser (``lambda params: lw.optim.SMD(params, gain=1)``),
        or an optimiser over the system's parameters. Full-batch ones (L-BFGS) get all examples in each step. None:
        Adam, which needs first derivatives only, as every inference that has a gradient gives. Its rate is probed on
        eight batches before each stage and falls to zero over the stage by a cosine, unless a schedule is given.
    epochs:
        Passes over the examples at most, those of all stages together.
    batch:
        Examples a step, or a :class:`~loopwise.learn.TotalSize` of them. By default 32, and for examples of a template
        as many as are as large as 32 of average size. Multiples of 32 fill the lanes of the kernels, where all
        examples have one graph.
    dev, measure, patience:
        After each epoch ``measure`` (by default the goal) of the hard decisions on ``dev`` is taken, and the weights of
        the best epoch are the ones kept. ``patience``: a stage ends after so many epochs without a new best.
    seed:
        For the order of examples, random starts, and whatever the potentials draw (dropout).
    clip:
        Gradients longer than this are scaled down to it.
    prior:
        A penalty on the weights of the potentials, on the scale of the mean loss of an example;
        :class:`~loopwise.optim.AdaGradCOMID` takes it in closed form.
    schedule:
        Of the learning rate, such as :func:`~loopwise.optim.inverse_square_root`, advanced after each epoch; by
        default the rate stays, or with the default optimiser falls to zero.
    restarts, start:
        So many runs from normal random weights of standard deviation ``start``; the one with the least training
        objective at its end (with ``dev``: the best measure) is kept. Without ``start`` a run begins at the weights
        there are; but where all are 0 and variables are hidden, which is a saddle, at random ones of scale 0.1.
    checkpoint:
        A file, written after each epoch, from which the same call goes on if the process was stopped; the final weights
        are then the same, bit for bit at the same number of threads. A finished run is not repeated.
    callback:
        Called with each :class:`Epoch` after it (and its checkpoint); True ends training. Several may be given, such as
        :class:`~loopwise.learn.callbacks.CSVLog` and :class:`~loopwise.learn.callbacks.TensorBoardLog`.
    progress:
        A bar, on terminals.
    by_pattern:
        Whether examples with different observed variables are kept in different batches
        (:meth:`Examples.batches`); by default where that leaves full batches.

    Decoders follow their temperature schedules by epochs (of those stages that train decisions), and corpus thresholds
    are refreshed once an epoch. A loss or gradient that is not finite ends training with a :class:`TrainingError`: the
    weights, and the checkpoint, are then those of the last whole epoch. Warnings that inference did not converge are
    not shown: its budget is part of what is trained.

    Under ``torchrun`` (or wherever ``torch.distributed`` is set up) all processes train one system: give each the same
    system and all examples. Each computes its share of every batch, and the weights of all are those that one process
    would have found, up to rounding. The first one alone measures ``dev``, writes the checkpoint and has the callbacks.

    Cost: an epoch is one gradient an example, about four with SMD; the probe of the rate is some 60 of a batch.

    Returns
    -------
    The :class:`History`: loss and measure of each epoch.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> examples = lw.Examples.of(graph, [[0, 1, 1], [1, 1, 0], [0, 1, 0]], [lw.Role.OUTPUT] * 3)
    >>> system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))
    >>> history = lw.fit(system, examples, lw.loss.MSE(), epochs=5, progress=False)
    >>> history.losses[-1] < history.losses[0]
    True
    """
    plan = FitPlan.of(
        goal, optimizer, epochs, batch, dev, measure, patience, seed, clip, prior, schedule, restarts, start, by_pattern
    )
    team = processes()
    objective = SystemObjective(system, examples, plan, team)
    limits = Limits(plan.stages, epochs, restarts, patience, reopens=True)
    with ignored_convergence(), objective.prepared(), progress_bar(progress and team.first, epochs * restarts) as tell:
        ledger = Ledger.open(checkpoint, objective.identity(), team=team)
        history = train(objective, limits, ledger=ledger, callbacks=as_callbacks(callback), tell=tell, team=team)
    system.card = objective.card(history)
    return history
