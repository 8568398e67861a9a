"""A run of training: epochs, restarts, and the state between them.

In: a system, examples, a :class:`Plan`. Out: changed weights, a history. Stage: learning.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.formats.files import PathLike
from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import Integers
from loopwise.learn.checkpoint import (
    describe_examples,
    describe_graph,
    describe_template,
    identify,
    read_checkpoint,
    restoring,
    write_checkpoint,
)
from loopwise.learn.course import Course
from loopwise.learn.evaluate import Goal, evaluate, risk, scored_roles
from loopwise.learn.history import Epoch, History
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.optim.steps import TakesLoss, finish, gradient_norm, take_step
from loopwise.learn.plan import Plan
from loopwise.learn.progress import Tell
from loopwise.learn.start import State, draw_weights, generator, restore, snapshot, start_scale, trained_potentials
from loopwise.learn.stepping import (
    describe_optimizer,
    gain_range,
    is_full_batch,
    make_optimizer,
    make_schedule,
    reset_gains,
)
from loopwise.learn.system import Given, System, answering
from loopwise.learn.template_examples import Corpus
from loopwise.loss.base import Measure
from loopwise.loss.likelihood import Objective
from loopwise.notices import GradientError
from loopwise.potentials.sparse import SparsePotentials
from loopwise.potentials.template import Template

logger = logging.getLogger(__name__)

_SHUFFLE, _WEIGHTS, _DRAWS = range(3)  # what generators are for


_ADVICE = "; try a lower rate, clip gradients, or damp inference"


class TrainingError(ValueError):
    """Training cannot go on: a loss or gradient is not finite, or there is no gradient."""


class _NotFiniteError(Exception):
    """A loss is NaN or infinite."""


class Training:
    """One call of :func:`~loopwise.fit` in progress."""

    def __init__(self, system: System, examples: Given, plan: Plan) -> None:
        self.system, self.plan = system, plan
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
        self.course = Course.begin(plan.stages, plan.epochs)
        self.history = History()
        self.initial = snapshot(system)
        self.good = self.initial  # after the last whole epoch
        self.best: State | None = None  # of this restart, by the development data
        self.kept: tuple[float, State, Course] | None = None  # of the restarts so far
        self.shuffle = generator(plan.seed, 0, _SHUFFLE)
        self.optimizer = make_optimizer(plan, self.system, self.params)
        self.schedule = make_schedule(plan.schedule, self.optimizer)
        self.identity = self._identity()

    # --- The run -----------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return bool(self.course.ended) and self.course.restart + 1 >= self.plan.restarts

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

    def epoch(self, tell: Tell) -> Epoch:
        """One epoch, with all that goes before and after it."""
        began = time.perf_counter()
        if self.course.ended:
            self.course = Course.begin(self.plan.stages, self.plan.epochs, self.course.restart + 1)
        self._begin()
        course, plan = self.course, self.plan
        loss = self._pass(tell)
        finish(self.optimizer)
        if self.schedule is not None:
            self.schedule.step()
        self.system.refresh(self.corpus)
        self.good = snapshot(self.system)
        dev = None if self.dev is None else evaluate(self.system, self.dev, plan.measure)
        better = None if dev is None else self._note_best(dev)
        epoch = Epoch(
            course.epoch + 1,
            loss,
            time.perf_counter() - began,
            course.stage,
            course.restart,
            dev,
            gain_range(self.optimizer),
        )
        self.history.epochs.append(epoch)
        measured = "" if dev is None else f", development data {dev:.6g}"
        logger.info("epoch %d of %d: loss %.6g%s, %.1f s", epoch.number, plan.epochs, loss, measured, epoch.seconds)
        course.after_epoch(plan.stages, plan.epochs, plan.patience, loss, better)
        if course.ended:
            self._end_restart()
        return epoch

    def finish(self) -> History:
        """Puts the best weights in place."""
        if self.kept is not None:
            _, state, course = self.kept
        else:  # ended by the callback within the first restart
            state, course = (self.best if self.best is not None else snapshot(self.system)), self.course
        restore(self.system, state)
        self.history.restart = course.restart
        self.history.best = course.best_epoch
        self.history.ended = self.history.ended or course.ended
        return self.history

    def _begin(self) -> None:
        """What is done before the first epoch of a restart or of a stage."""
        course = self.course
        if course.epoch == 0:
            self._begin_restart(course.restart)
        elif course.stage_epoch == 0 and not self.plan.stages[course.stage].keep_gains:
            reset_gains(self.optimizer)
        if course.stage_epoch == 0 and len(self.plan.stages) > 1:
            goal = type(self.plan.stages[course.stage].goal).__name__
            logger.info("stage %d of %d: %s", course.stage + 1, len(self.plan.stages), goal)
        if course.epoch == 0:
            self.system.refresh(self.corpus)

    def _begin_restart(self, restart: int) -> None:
        logger.info(
            "run %d of %d: %d examples, %d parameters, %s", restart + 1, self.plan.restarts, len(self.corpus),
            sum(param.numel() for param in self.params), type(self.optimizer).__name__,
        )  # fmt: skip
        restore(self.system, self.initial)
        if self.scale is not None:
            draw_weights(self.system, self.scale, generator(self.plan.seed, restart, _WEIGHTS))
        self.good, self.best = snapshot(self.system), None
        self.shuffle = generator(self.plan.seed, restart, _SHUFFLE)
        torch.manual_seed(generator(self.plan.seed, restart, _DRAWS).initial_seed())
        if restart > 0:
            self.optimizer = make_optimizer(self.plan, self.system, self.params)
            self.schedule = make_schedule(self.plan.schedule, self.optimizer)

    def _end_restart(self) -> None:
        """Keeps the weights if they are the best of the restarts so far."""
        course = self.course
        state = self.best if self.best is not None else snapshot(self.system)
        if course.best_dev is not None:
            score = self.plan.sign * course.best_dev
        else:
            score = self._whole_loss() if self.plan.restarts > 1 else 0.0
        better = self.kept is None or score < self.kept[0] or math.isnan(self.kept[0])
        logger.info("run %d ended: %s%s", course.restart + 1, course.ended, "" if better else " (not the best)")
        if better:
            self.kept = score, state, course

    def _note_best(self, dev: float) -> bool:
        course = self.course
        sign = self.plan.sign
        better = course.best_dev is None or not sign * dev >= sign * course.best_dev  # a best that is NaN is none
        if better:
            course.best_dev, course.best_epoch = dev, course.epoch + 1
            self.best = snapshot(self.system)
        return better

    # --- One pass ----------------------------------------------------------------------------------------------------

    def _pass(self, tell: Tell) -> float:
        """A step for each batch; the mean loss of an example."""
        examples, parts = self._batches()
        whole = is_full_batch(self.optimizer)
        steps = [np.concatenate(parts)] if whole else parts
        total = 0.0
        for number, rows in enumerate(steps):
            place = f"epoch {self.course.epoch + 1}, batch {number + 1} of {len(steps)}"
            value = self._step(partial(self._whole, parts) if whole else partial(self._risk, examples[rows]), place)
            total += value * len(rows)
            done = self.course.restart * self.plan.epochs + self.course.epoch + (number + 1) / len(steps)
            tell(done, f"{place}, loss {value:.4g}")
        return total / sum(map(len, steps))

    def _batches(self) -> tuple[Corpus, list[Integers]]:
        goal, by_pattern = self.plan.stages[self.course.stage].goal, self.plan.by_pattern
        examples = self.examples[self.course.stage]
        clamped = (Role.INPUT, Role.OUTPUT) if isinstance(goal, Objective) else (Role.INPUT,)
        return examples, examples.batch_indices(self.batch, self.shuffle, by_pattern=by_pattern, clamped=clamped)

    def _step(self, loss: Callable[[], Tensor], place: str) -> float:
        whole = is_full_batch(self.optimizer)

        def finite() -> Tensor:
            value = loss()
            # Before anything is differentiated; but a line search may try such points, and turns back.
            if not whole and not bool(torch.isfinite(value.detach())):
                raise _NotFiniteError(f"the loss is {float(value.detach())} in {place}")
            return value

        try:
            value = float(take_step(self.optimizer, finite, self.plan.clip))
        except _NotFiniteError as problem:
            raise self._failed(str(problem), _ADVICE) from None
        except GradientError as problem:
            raise self._failed(f"{problem} ({place})") from problem
        except ValueError as problem:
            if not (whole and "not finite" in str(problem)):  # L-BFGS cannot start here; else another mistake
                raise
            raise self._failed(f"{problem} ({place})", _ADVICE) from problem
        if not isinstance(self.optimizer, TakesLoss) and not math.isfinite(gradient_norm(self.params)):
            raise self._failed(f"a gradient is not finite in {place}, while the loss is {value:.4g}", _ADVICE)
        return value

    def _failed(self, what: str, advice: str = "") -> TrainingError:
        """Puts the last good weights back and says so."""
        finish(self.optimizer)
        restore(self.system, self.good if self.best is None else self.best)
        done = self.course.epoch
        kept = "at the start" if not done else f"after epoch {done}" if self.best is None else "of the best epoch"
        return TrainingError(f"{what}: training stopped, and the weights are those {kept}{advice}")

    def _risk(self, part: Corpus) -> Tensor:
        """What a step makes smaller."""
        course = self.course
        goal = self.plan.stages[course.stage].goal
        value = risk(self.system, part, goal, step=course.decided)
        if value.ndim:
            raise ValueError(
                f"{type(goal).__name__} with reduction=Each() is no single number to train for; leave its reduction out"
            )
        return self._penalised(value)

    def _whole(self, parts: Sequence[Integers]) -> Tensor:
        """The loss of all examples at once, which pools statistics as the measure says; memory grows with them."""
        course, examples = self.course, self.examples[self.course.stage]
        goal = self.plan.stages[course.stage].goal
        if isinstance(goal, Measure):
            chosen = [examples[rows] for rows in parts]
            decided = [part.by_example(self.system(part, step=course.decided)) for part in chosen]
            found = [goal.statistics(rows, part.targets) for rows, part in zip(decided, chosen, strict=True)]
            return self._penalised(goal.combine(torch.cat(found)))
        pieces = [len(part) * risk(self.system, examples[part], goal) for part in parts]
        return self._penalised(torch.stack(pieces).sum() / len(examples))

    def _whole_loss(self) -> float:
        """The training objective at the weights as they are."""
        with answering(self.system):
            goal = self.plan.stages[self.course.stage].goal
            clamped = (Role.INPUT, Role.OUTPUT) if isinstance(goal, Objective) else (Role.INPUT,)
            examples = self.examples[self.course.stage]
            order = examples.batch_indices(examples.usual_chunk, by_pattern=True, clamped=clamped)
            return float(self._whole(order))

    def _penalised(self, value: Tensor) -> Tensor:
        if self.plan.prior is None or isinstance(self.optimizer, AdaGradCOMID):  # which has it
            return value
        return value + self.plan.prior.value(trained_potentials(self.system))

    # --- Checkpoints -------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Writes everything that later epochs depend on."""
        kept = None if self.kept is None else (self.kept[0], self.kept[1], self.kept[2].to_json())
        state = {
            "weights": self.system.state_dict(),
            "initial": self.initial if self.plan.restarts > 1 else None,
            "best": self.best,
            "kept": kept,
            "optimizer": self.optimizer.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "shuffle": self.shuffle.get_state(),
            "draws": torch.get_rng_state(),
            "course": self.course.to_json(),
            "history": self.history.to_json(),
        }
        write_checkpoint(path, self.identity, state)
        logger.debug("checkpoint written to %s", path)

    def resume(self, path: PathLike) -> None:
        """Goes to where the checkpoint at ``path`` was written, if there is one."""
        state = read_checkpoint(path, self.identity)
        if state is None:
            return
        with restoring(path):
            self._go_to(state)
        logger.info("resumed from %s after epoch %d of run %d", path, self.course.epoch, self.course.restart + 1)
        if self.plan.restarts == 1:
            self.course.reopen(self.plan.stages, self.plan.epochs)
            if not self.course.ended:
                self.kept = None

    def _go_to(self, state: Mapping[str, Any]) -> None:
        restore(self.system, state["weights"])
        self.initial = state["initial"] or self.initial
        self.best = state["best"]
        self.good = snapshot(self.system)
        self.kept = None if state["kept"] is None else (*state["kept"][:2], Course(**state["kept"][2]))
        self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.shuffle.set_state(state["shuffle"])
        torch.set_rng_state(state["draws"])
        self.course = Course(**state["course"])
        self.history = History.from_json(state["history"])

    def _structure(self) -> str:
        potentials = self.system.potentials
        return describe_template(potentials) if isinstance(potentials, Template) else describe_graph(self.system.graph)

    def _identity(self) -> dict[str, str]:
        """What tells this run from others."""
        plan = self.plan
        shapes = [f"{name} {tuple(tensor.shape)}" for name, tensor in self.initial.items()]
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
        if len(plan.stages) > 1 or plan.restarts > 1:  # else a run may be given more epochs later
            run["epochs"] = str(plan.epochs)
        return run


def _scored(examples: Corpus, goal: Goal) -> Corpus:
    """Those examples in which something is scored; others would only dilute batches."""
    counted = examples.scored_examples if isinstance(goal, Measure) else examples.having(scored_roles(goal))
    if not counted.any():
        raise ValueError(
            "there is nothing to train on: no output has a known value in any example; give values of the outputs"
        )
    return examples if counted.all() else examples[counted]
