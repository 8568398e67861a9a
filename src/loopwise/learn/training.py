"""A system as the trainer sees it: what an epoch is, and the state between epochs.

In: a system, examples, a :class:`FitPlan`. Out: :class:`SystemObjective`. Stage: learning.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import Integers
from loopwise.learn.course import epochs_of
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.distributed import ALONE, Team, described_code
from loopwise.learn.evaluate import Goal, evaluate, risk, scored_roles
from loopwise.learn.files.card import training_card
from loopwise.learn.files.checkpoint import (
    describe_examples,
    describe_graph,
    describe_template,
    identify,
)
from loopwise.learn.history import History
from loopwise.learn.objective import Objective, RoundError
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.optim.adam import STEPS, find_rate
from loopwise.learn.optim.smd import SMD
from loopwise.learn.optim.steps import TakesLoss, finish, gradient_norm, take_step
from loopwise.learn.plan import FitPlan
from loopwise.learn.progress import Tell
from loopwise.learn.start import State, draw_weights, generator, restore, snapshot, start_scale, trained_potentials
from loopwise.learn.stepping import (
    describe_optimizer,
    gain_range,
    is_full_batch,
    lower_rate,
    make_optimizer,
    make_schedule,
    reset_gains,
    set_rate,
)
from loopwise.learn.system import Given, System, answering
from loopwise.learn.system_loss import shared_risk, whole_risk
from loopwise.learn.trainer import TrainingError as TrainingError
from loopwise.loss.base import Measure
from loopwise.loss.likelihood import LikelihoodObjective as Likelihood
from loopwise.notices import GradientError
from loopwise.potentials.sparse import SparsePotentials
from loopwise.potentials.template import Template

logger = logging.getLogger(__name__)

_SHUFFLE, _WEIGHTS, _DRAWS, _PROBE = range(4)  # what generators are for


_ADVICE = "; try a lower rate, clip gradients, or damp inference"


class _NotFiniteError(Exception):
    """A loss is NaN or infinite."""


class SystemObjective(Objective):
    """A system and its goals: a round is an epoch, a step for each batch."""

    def __init__(self, system: System, examples: Given, plan: FitPlan, team: Team = ALONE) -> None:
        check_system(system)
        self.system, self.plan, self.team = system, plan, team
        self.corpus = system.examples(examples)
        self.dev = None if plan.dev is None else system.examples(plan.dev)
        if not len(self.corpus):
            raise ValueError("there are no examples to train on; give at least one")
        self.batch = self.corpus.usual_step if plan.batch is None else plan.batch
        self.params: list[Tensor] = [param for param in system.parameters() if param.requires_grad]
        if not self.params:
            raise ValueError("the system has no parameter to train; let at least one require a gradient")
        self.examples = [_scored(self.corpus, stage.goal) for stage in plan.stages]
        self.scale = start_scale(system, self.corpus, plan.start, plan.restarts)
        self.stage = self.epoch = 0  # the one under way, and how many epochs of the restart are over
        self.restart = self.begun = 0  # which it is, and how many epochs were over when the stage began
        self.decided = 0  # epochs in which decisions were trained: where schedules of temperatures stand
        self.shuffle = generator(plan.seed, 0, _SHUFFLE)
        self.optimizer = make_optimizer(plan, self.system, self.params)
        self.schedule = make_schedule(plan.schedule, self.optimizer)
        team.check_same({} if team.alone else self._described())
        team.level(system)
        self.initial = snapshot(system)
        self.good = self.initial  # after the last whole epoch
        self.differentiable = False  # whether any loss so far depends on the weights

    # --- The run -----------------------------------------------------------------------------------------------------

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Training mode and random numbers of its own; afterwards both are as before, and weights are up to date."""
        modes = [(module, module.training) for module in self.system.modules()]
        self.system.train()
        try:
            with torch.random.fork_rng(devices=[]):
                yield
        finally:
            finish(self.optimizer)
            for module, mode in modes:
                module.training = mode
                if isinstance(module, SparsePotentials):
                    module.on_read = None  # no optimiser owes anything any more

    def begin(self, restart: int, stage: int) -> None:
        self.restart, self.stage = restart, stage
        if stage == 0:
            self._begin_restart(restart)
        elif not self.plan.stages[stage].keep_gains:
            reset_gains(self.optimizer)
        if len(self.plan.stages) > 1:
            goal = type(self.plan.stages[stage].goal).__name__
            logger.info("stage %d of %d: %s", stage + 1, len(self.plan.stages), goal)
        if stage == 0:
            self.system.refresh(self.corpus)
        self.begun = self.epoch

    def _find_rate(self) -> None:
        """Tries rates on the first batches of a shuffle of its own; nothing but the rate is changed."""
        before = snapshot(self.system)
        examples, parts = self._batches(generator(self.plan.seed, self.restart, _PROBE))
        losses = [partial(self._risk, examples, rows) for rows in parts[:STEPS]]
        with self._explained(f"a probe of the rate before epoch {self.epoch + 1}", whole=True):
            rate = find_rate(self.params, losses)
        self._check_differentiable()
        restore(self.system, before)  # buffers too
        set_rate(self.optimizer, rate)
        self.schedule = make_schedule(self.plan.schedule, self.optimizer)

    def _set_rate(self) -> None:
        """Where no optimiser is named: a rate for each stage, and its course."""
        if self.epoch == self.begun:
            self._find_rate()
        if self.schedule is None:
            allowed = epochs_of(self.plan.stages, self.stage, self.plan.epochs - self.begun)
            lower_rate(self.optimizer, self.epoch - self.begun, allowed)

    def _begin_restart(self, restart: int) -> None:
        logger.info(
            "run %d of %d: %d examples, %d parameters, %s", restart + 1, self.plan.restarts, len(self.corpus),
            sum(param.numel() for param in self.params), type(self.optimizer).__name__,
        )  # fmt: skip
        restore(self.system, self.initial)
        if self.scale is not None:
            draw_weights(self.system, self.scale, generator(self.plan.seed, restart, _WEIGHTS))
        self.good, self.epoch, self.decided = snapshot(self.system), 0, 0
        self.shuffle = generator(self.plan.seed, restart, _SHUFFLE)
        torch.manual_seed(generator(self.plan.seed, restart, _DRAWS).initial_seed() + self.team.rank)
        if restart > 0:
            self.optimizer = make_optimizer(self.plan, self.system, self.params)
            self.schedule = make_schedule(self.plan.schedule, self.optimizer)

    def round(self, tell: Tell) -> float:
        if self.plan.finds_rate:
            self._set_rate()
        loss = self._pass(tell)
        finish(self.optimizer)
        self.team.level(self.system)
        if self.schedule is not None:
            self.schedule.step()
        self.system.refresh(self.corpus)
        self.good = snapshot(self.system)
        self.epoch += 1
        self.decided += isinstance(self.plan.stages[self.stage].goal, Measure)
        return loss

    def measure(self) -> float | None:
        dev = self.dev
        return None if dev is None else self.team.from_first(lambda: evaluate(self.system, dev, self.plan.measure))

    @property
    def higher_is_better(self) -> bool:
        return self.plan.sign < 0

    @property
    def gains(self) -> tuple[float, float, float] | None:
        return gain_range(self.optimizer)

    def weights(self) -> State:
        return snapshot(self.system)

    def set_weights(self, weights: State) -> None:
        restore(self.system, weights)

    # --- One pass ----------------------------------------------------------------------------------------------------

    def _pass(self, tell: Tell) -> float:
        """A step for each batch; the mean loss of an example."""
        examples, parts = self._batches(self.shuffle)
        whole = is_full_batch(self.optimizer)
        steps = [np.concatenate(parts)] if whole else parts
        total = 0.0
        for number, rows in enumerate(steps):
            place = f"epoch {self.epoch + 1}, batch {number + 1} of {len(steps)}"
            value = self._step(partial(self._whole, parts) if whole else partial(self._risk, examples, rows), place)
            total += value * len(rows)
            tell((number + 1) / len(steps), f"{place}, loss {value:.4g}")
        self._check_differentiable()
        return total / sum(map(len, steps))

    def _batches(self, source: torch.Generator) -> tuple[Corpus, list[Integers]]:
        goal, by_pattern = self.plan.stages[self.stage].goal, self.plan.by_pattern
        examples = self.examples[self.stage]
        clamped = (Role.INPUT, Role.OUTPUT) if isinstance(goal, Likelihood) else (Role.INPUT,)
        return examples, examples.batch_indices(self.batch, source, by_pattern=by_pattern, clamped=clamped)

    def _step(self, loss: Callable[[], Tensor], place: str) -> float:
        whole = is_full_batch(self.optimizer)

        def finite() -> Tensor:
            value = loss()
            # Before anything is differentiated; but a line search may try such points, and turns back.
            if not whole and not bool(torch.isfinite(value.detach())):
                raise _NotFiniteError(f"the loss is {float(value.detach())} in {place}")
            return value

        with self._explained(place, whole):
            value = float(take_step(self.optimizer, finite, self.plan.clip))
        if not isinstance(self.optimizer, TakesLoss) and not math.isfinite(gradient_norm(self.params)):
            raise self._failed(f"a gradient is not finite in {place}, while the loss is {value:.4g}", _ADVICE)
        return value

    @contextmanager
    def _explained(self, place: str, whole: bool) -> Iterator[None]:
        """Errors of a step (``whole``: of one that tries several points) stop training, and say where and why."""
        try:
            yield
        except _NotFiniteError as problem:
            raise self._failed(str(problem), _ADVICE) from None
        except GradientError as problem:
            raise self._failed(f"{problem} ({place}){self._remedy(str(problem))}") from problem
        except RuntimeError as problem:
            if "does not require grad" not in str(problem):
                raise
            raise self._failed(f"{_no_gradient(self.system)} ({place})") from problem
        except ValueError as problem:
            # L-BFGS, or a probe, cannot start here; else another mistake
            if not (whole and re.search("not finite|before any step|diverged", str(problem))):
                raise
            raise self._failed(f"{problem} ({place})", _ADVICE) from problem

    def _remedy(self, problem: str) -> str:
        """What to do about derivatives that are not there."""
        if not isinstance(self.optimizer, SMD) or not re.search("once|second|Hessian", problem):
            return ""
        return (
            "; the optimizer SMD differentiates twice: leave optimizer out, or give one that needs first derivatives "
            "only, such as torch.optim.Adam"
        )

    def _failed(self, what: str, advice: str = "") -> RoundError:
        """Puts the last good weights back."""
        finish(self.optimizer)
        restore(self.system, self.good)
        return RoundError(what, advice)

    def _risk(self, examples: Corpus, rows: Integers) -> Tensor:
        """What a step makes smaller."""
        goal = self.plan.stages[self.stage].goal
        if self.team.alone:
            value = risk(self.system, examples[rows], goal, step=self.decided)
        else:
            value = self._shared([rows])
        if value.ndim:
            raise ValueError(
                f"{type(goal).__name__} with reduction=Each() is no single number to train for; leave its reduction out"
            )
        return self._penalised(self._noted(value))

    def _noted(self, value: Tensor) -> Tensor:
        self.differentiable |= value.requires_grad
        return value

    def _check_differentiable(self) -> None:
        if not self.differentiable:
            raise self._failed(_no_gradient(self.system))

    def _whole(self, parts: Sequence[Integers]) -> Tensor:
        """The loss of all examples at once, which pools statistics as the measure says; memory grows with them."""
        if not self.team.alone:
            return self._penalised(self._noted(self._shared(parts)))
        examples, goal = self.examples[self.stage], self.plan.stages[self.stage].goal
        return self._penalised(self._noted(whole_risk(self.system, examples, goal, parts, self.decided)))

    def _shared(self, parts: Sequence[Integers]) -> Tensor:
        """The loss of these examples, of which each process computes its share."""
        examples, goal = self.examples[self.stage], self.plan.stages[self.stage].goal
        return shared_risk(self.team, self.params, self.system, examples, goal, parts, self.decided)

    def loss(self) -> float:
        with answering(self.system):
            goal = self.plan.stages[self.stage].goal
            clamped = (Role.INPUT, Role.OUTPUT) if isinstance(goal, Likelihood) else (Role.INPUT,)
            examples = self.examples[self.stage]
            order = examples.batch_indices(examples.usual_chunk, by_pattern=True, clamped=clamped)
            return float(self._whole(order))

    def _penalised(self, value: Tensor) -> Tensor:
        if self.plan.prior is None or isinstance(self.optimizer, AdaGradCOMID):  # which has it
            return value
        return value + self.plan.prior.value(trained_potentials(self.system))

    # --- Checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "place": (self.stage, self.epoch, self.decided, self.restart, self.begun),
            "weights": self.system.state_dict(),
            "initial": self.initial if self.plan.restarts > 1 else None,
            "optimizer": self.optimizer.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "shuffle": self.shuffle.get_state(),
            "draws": torch.get_rng_state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        restore(self.system, state["weights"])
        self.stage, self.epoch, self.decided, self.restart, self.begun = state["place"]
        self.initial = state["initial"] or self.initial
        self.good = snapshot(self.system)
        self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.shuffle.set_state(state["shuffle"])
        torch.set_rng_state(state["draws"])

    def _structure(self) -> str:
        potentials = self.system.potentials
        return describe_template(potentials) if isinstance(potentials, Template) else describe_graph(self.system.graph)

    def card(self, history: History) -> dict[str, Any]:
        """What a saved file says of the training."""
        goals = ", then ".join(type(stage.goal).__name__ for stage in self.plan.stages)
        measure, optimizer = type(self.plan.measure).__name__, type(self.optimizer).__name__
        held = "" if self.dev is None else f", {len(self.dev)} for development"
        return training_card(f"{len(self.corpus)} examples{held}", goals, history, measure, {"optimizer": optimizer})

    def _described(self) -> dict[str, str]:
        """What must be the same in all processes of a team: the run, its data to the last number, its code."""
        inputs = {
            f"input of the {name}": identify(getattr(corpus, "inputs", None))
            for name, corpus in (("training data", self.corpus), ("development data", self.dev))
        }
        goals = [stage.goal for stage in self.plan.stages]
        code = described_code([*self.system.modules(), self.system.inference, self.system.decoder, *goals])
        return self.identity() | inputs | {"epochs": str(self.plan.epochs)} | code

    def identity(self) -> dict[str, str]:
        """What tells this run from others."""
        plan = self.plan
        shapes = [f"{name} {tuple(tensor.shape)}" for name, tensor in self.system.state_dict().items()]
        run = {
            "graph": self._structure(),
            "weights": ", ".join(shapes),
            "inference": identify(self.system.inference),
            "decoder": identify(self.system.decoder),
            "training data": describe_examples(self.corpus),
            "goal": identify(plan.stages),
            "optimizer": describe_optimizer(self.optimizer),
            "schedule": identify(plan.schedule),
            "development data": describe_examples(self.dev),
            "measure": identify(plan.measure),
        }
        names = ("patience", "seed", "clip", "prior", "restarts", "start", "by_pattern")
        run.update(batch=identify(self.batch), **{name: identify(getattr(plan, name)) for name in names})
        # Else a run may be given more epochs later; but a rate that falls to zero depends on how many there are.
        if len(plan.stages) > 1 or plan.restarts > 1 or (plan.finds_rate and plan.schedule is None):
            run["epochs"] = str(plan.epochs)
        return run


def check_system(system: object) -> None:
    """Refuses what is not a system: another module around one above all."""
    if isinstance(system, System):
        return
    kind = type(system).__name__
    if isinstance(getattr(system, "module", None), System):
        raise ValueError(
            f"lw.fit shares every batch between processes by itself: give the system, not {kind} around it "
            "(its attribute module)"
        )
    raise ValueError(f"lw.fit trains a lw.System, not {kind}: put potentials, inference and a decoder into one")


def _scored(examples: Corpus, goal: Goal) -> Corpus:
    """Those examples in which something is scored; others would only dilute batches."""
    counted = examples.scored_examples if isinstance(goal, Measure) else examples.having(scored_roles(goal))
    if not counted.any():
        raise ValueError(
            "there is nothing to train on: no output has a known value in any example; give values of the outputs"
        )
    return examples if counted.all() else examples[counted]


def _no_gradient(system: System) -> str:
    name = type(system.inference).__name__
    return (
        f"the loss has no gradient with respect to any trained weight: inference by {name} gives none, or the "
        "potentials do not use their parameters; train with lw.BP(), lw.TRW(), lw.MeanField() or lw.Exact(), whose "
        "weights other methods can then use"
    )
