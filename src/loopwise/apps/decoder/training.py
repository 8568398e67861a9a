"""Training a decoder: stochastic steps on shots, the best numbers on held-out shots kept, those of the start included.

In: a decoder, shots or a sampler, a loss. Out: the decoder, trained; its history. Stage: use. Rounds, files and
the best numbers are the trainer's. Each step draws its shots by its own number, so that an interrupted training goes on
to the same numbers, bit for bit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.decoder.evaluation import failed, interval, is_lower, wrong_bits
from loopwise.apps.decoder.legs import Leg
from loopwise.apps.decoder.losses import DecoderLoss
from loopwise.apps.decoder.shots import Shots, ShotSampler, check_source
from loopwise.arguments import checked_kind, checked_number, checked_whole
from loopwise.formats.files import PathLike
from loopwise.inference.families.parity import trace
from loopwise.lazy import old_names
from loopwise.learn.course import Rounds
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.history import Epoch, History
from loopwise.learn.objective import Objective, RoundError
from loopwise.learn.optim.adam import DenseAdam, cosine
from loopwise.learn.progress import Tell, progress_bar
from loopwise.learn.trainer import Limits
from loopwise.learn.trainer import train as run_trainer

if TYPE_CHECKING:
    from loopwise.apps.decoder.decoder import Decoder

_MOST_DRAWN = 200  # batches drawn for one of hard shots, before it is taken as it is
_CONFIRMING = 16  # times as many shots as choose among rounds may be drawn to compare the best with the start
_STEP, _CONFIRMATION = 7, 8  # what shots are drawn for


@dataclass(frozen=True)
class TrainedNumbers:
    """Which numbers are trained. ``edges``: a weight for each edge, or for edges that are tied; ``sweeps``: for each
    sweep; ``memory``: a strength for each bit; ``priors``: how much each bit's prior counts."""

    edges: bool = True
    sweeps: bool = True
    memory: bool = True
    priors: bool = False

    def __post_init__(self) -> None:
        if not (self.edges or self.sweeps or self.memory or self.priors):
            raise ValueError("nothing is trained: let at least one of edges, sweeps, memory and priors be")


@dataclass(frozen=True)
class LegTraining:
    """How a leg is trained; :meth:`Decoder.fit` says what each means."""

    trained: TrainedNumbers
    leg: int
    steps: int
    batch: int
    rate: float
    clip: float
    kept: tuple[int, ...] | None
    hard: float
    spread: float
    report: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("steps", "report", "batch"):
            checked_whole(name, getattr(self, name))
        checked_whole("seed", self.seed, 0)
        checked_number("rate", self.rate)
        checked_number("clip", self.clip)
        checked_number("spread", self.spread, above=False)
        checked_kind("trained", self.trained, TrainedNumbers, "a TrainedNumbers(...)")
        if not 0 <= self.hard <= 1:
            raise ValueError(f"hard must be a share from 0 to 1, not {self.hard}")


def train(
    decoder: Decoder,
    source: Shots | ShotSampler,
    loss: DecoderLoss,
    plan: LegTraining,
    dev: Shots | int,
    checkpoint: PathLike | None,
    progress: bool,
) -> History:
    """Trains the numbers of one leg; what was measured on held-out shots, beginning before training."""
    check_source(source)
    checked_kind("loss", loss, DecoderLoss, "a loss of decoders, ResidualParity() for instance")
    if not isinstance(dev, Shots):
        checked_whole("dev", dev)
    elif not len(dev):
        raise ValueError("dev holds no shots to judge by; give some, or say how many to draw")
    objective = DecoderObjective(decoder, source, loss, plan)
    run = {
        "code": decoder.code.fingerprint,
        "training": f"{plan.trained}, leg {objective.number}, {plan.steps} steps of {plan.batch}, rate {plan.rate}, "
        f"clip {plan.clip}, hard {plan.hard}, spread {plan.spread}, kept {objective.looks.tolist()}, "
        f"report {plan.report}, seed {plan.seed}",
        "loss": identify(loss),
        "shots": _describe(source),
        "development data": _describe(dev) if isinstance(dev, Shots) else f"{dev} drawn",
        "start": checksum(*objective.numbers()),
    }
    objective.open(dev)
    rounds = -(-plan.steps // plan.report)
    limits = Limits((Rounds(rounds),), rounds, from_start=True, reopens=True)
    try:
        with progress_bar(progress, rounds) as tell:
            history = run_trainer(objective, limits, ledger=Ledger.open(checkpoint, run), tell=tell)
    finally:
        objective.close()
    history.epochs.insert(0, Epoch(0, float("nan"), 0.0, dev=objective.before))
    if history.best and not objective.is_better(dev):
        history.best = 0
        history.ended += "; kept the start: nothing failed less by more than chance"
    if history.best == 0:
        objective.restore()
    return history


class DecoderObjective(Objective):
    """The numbers of one leg: a round is the steps between two looks at held-out shots."""

    def __init__(self, decoder: Decoder, source: Shots | ShotSampler, loss: DecoderLoss, plan: LegTraining) -> None:
        legs = len(decoder.legs)
        if not -legs <= plan.leg < legs:
            raise ValueError(f"leg {plan.leg} does not exist; the decoder has {legs} legs, counted from 0")
        if isinstance(source, Shots):
            if not len(source):
                raise ValueError("there are no shots to train on; give at least one")
            source.check(decoder.code)
        self.decoder, self.source, self.loss_of, self.plan = decoder, source, loss, plan
        self.number = plan.leg % legs
        self.leg: Leg = decoder.legs[self.number]
        self.looks = self._looks(plan.kept)
        self.done = 0  # steps
        self.before: float | None = None  # what is measured at the start
        self.start = copy.deepcopy(self.leg)
        self.of_bits = loss.of_bits and decoder.code.observables is None

    def open(self, dev: Shots | int) -> None:
        """Numbers that are to be trained become parameters, at first such that nothing is changed."""
        trained = self.plan.trained
        self.leg.open(edges=trained.edges, sweeps=trained.sweeps, memory=trained.memory, priors=trained.priors)
        self.held = dev if isinstance(dev, Shots) else self._draw(dev, -1)
        self.held.check(self.decoder.code)
        self.params = [param for param in self.leg.parameters() if param.requires_grad]
        self.optimizer = DenseAdam(self.params, lr=self.plan.rate)

    def _spread_memory(self) -> None:
        """Random strengths where there was no memory."""
        if self.start.memory is None and self.leg.memory is not None and self.plan.trained.memory:
            drawn = torch.randn(self.leg.bits, generator=torch.Generator().manual_seed(self.plan.seed))
            self.leg.memory.data = self.plan.spread * drawn

    def numbers(self) -> list[NDArray[Any]]:
        """All that the leg has."""
        order = [] if self.leg.order is None else [self.leg.order]
        return [*(tensor.numpy() for tensor in self.leg.state_dict().values()), *order]

    def close(self) -> None:
        """They are numbers again."""
        for param in self.leg.parameters():
            param.requires_grad_(False)

    def is_better(self, dev: Shots | int) -> bool:
        """Whether the decoder fails less than at the start, pair by pair on held-out shots: those given, or new ones,
        drawn until they decide."""
        most = 1 if isinstance(dev, Shots) else _CONFIRMING
        now: list[NDArray[Any]] = []
        before: list[NDArray[Any]] = []
        for part in range(most):
            shots = dev if isinstance(dev, Shots) else self._draw(dev, part, _CONFIRMATION)
            now.append(self._wrong(shots, self.leg))
            before.append(self._wrong(shots, self.start))
            if is_lower(np.concatenate(now), np.concatenate(before)):
                return True
            if is_lower(np.concatenate(before), np.concatenate(now)):
                break
        return False

    def restore(self) -> None:
        """The leg is as it was."""
        for name in [name for name, _ in self.leg.named_parameters()]:
            setattr(self.leg, name, getattr(self.start, name))

    # --- As the trainer sees it --------------------------------------------------------------------------------------

    def round(self, tell: Tell) -> float:
        first, last = self.done, min(self.done + self.plan.report, self.plan.steps)
        if first == 0:
            self._spread_memory()
        losses = []
        for step in range(first, last):
            losses.append(self._step(step))
            tell((step + 1 - first) / (last - first), f"step {step + 1}, loss {losses[-1]:.4g}{self._failures}")
        self.done = last
        return float(np.mean(losses))

    def measure(self) -> float:
        wrong = self._wrong(self.held, self.leg)
        if self.of_bits:
            rate = float(wrong.mean()) / self.leg.bits
            self._failures = f", wrong bits {rate:.3g}"
        else:
            rate, (low, high) = float(wrong.mean()), interval(int(wrong.sum()), len(wrong))
            self._failures = f", failures {rate:.3g} ({low:.3g} to {high:.3g})"
        if self.before is None:
            self.before = rate
        return rate

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.leg.state_dict().items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        self.leg.load_state_dict(dict(weights))

    def state(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "before": self.before,
            "leg": self.weights(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.done, self.before = state["done"], state["before"]
        self.set_weights(state["leg"])
        self.optimizer.load_state_dict(state["optimizer"])

    # --- One step ----------------------------------------------------------------------------------------------------

    _failures = ""  # what the last look at held-out shots said

    def _looks(self, kept: Sequence[int] | None) -> np.ndarray:
        sweeps = self.leg.sweeps
        if kept is None:
            found = np.arange(min(5, sweeps), sweeps + 1, 3)
            return found if found[-1] == sweeps else np.append(found, sweeps)
        found = np.unique([checked_whole("each of kept", one) for one in kept]).astype(np.int64)
        if not len(found) or found[0] < 1 or found[-1] > sweeps:
            raise ValueError(f"kept must be numbers of sweeps from 1 to {sweeps}, not {list(kept)}")
        return found

    def _step(self, step: int) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate * cosine(step, self.plan.steps)
        shots, start = self._examples(step)
        decoder = self.decoder
        prior = self.leg.priors(torch.from_numpy(decoder._odds(shots.log_odds, len(shots))))
        passing = self.leg.passing(decoder.rule, decoder.layered)
        bits = decoder.code.syndromes(shots.syndromes)[0]
        checks, passing, seen = self.leg.arranged(decoder.code.checks, passing, bits)
        log_odds: Tensor = trace(checks, passing, prior, seen, self.looks, start)
        value = self.loss_of(decoder.code, log_odds, shots)
        if not bool(torch.isfinite(value)):
            raise RoundError(f"the loss is {value.item()} at step {step + 1}", "; try a lower rate")
        self.optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.params, self.plan.clip)
        if bool(torch.isfinite(norm)):  # one that overflows, through many sweeps, says nothing of where to go
            self.optimizer.step()
        self.leg.keep_in_range()
        return float(value.detach())

    def _draw(self, count: int, step: int, purpose: int = _STEP) -> Shots:
        """Shots of a step (-1: of the development data), the same whenever it is made."""
        random = np.random.default_rng([self.plan.seed, self.number, step + 1, purpose])
        if isinstance(self.source, Shots):
            return self.source.take(random.integers(len(self.source), size=count))
        shots = self.source.draw(count, random)
        shots.check(self.decoder.code)
        return shots

    def _examples(self, step: int) -> tuple[Shots, Tensor | None]:
        """A batch, with the beliefs that the legs before this one leave."""
        if self.number == 0 and self.plan.hard == 0:
            return self._draw(self.plan.batch, step), None
        batch = self.plan.batch
        easy = batch - round(self.plan.hard * batch)
        found: list[tuple[Shots, Any]] = []
        missing, attempt = {False: easy, True: batch - easy}, 0
        while (missing[False] or missing[True]) and attempt < _MOST_DRAWN:
            shots, left = self._unsolved(self._draw(4 * batch, 1000 * (step + 1) + attempt))
            attempt += 1
            if missing[False] and len(shots):
                chosen = slice(missing[False])
                found.append((shots.take(chosen), None if left is None else left[chosen]))
                missing[False] -= len(found[-1][0])
            if missing[True] and len(shots):
                rows = self._stubborn(shots, left)[: missing[True]]
                found.append((shots.take(rows), None if left is None else left[rows]))
                missing[True] -= len(rows)
        if not sum(len(shots) for shots, _ in found):
            raise ValueError(f"the legs before leg {self.number} leave no shot unexplained; train on a noisier channel")
        shots = Shots.joined([one for one, _ in found])
        left = None if found[0][1] is None else np.concatenate([one for _, one in found])
        return shots, None if left is None else torch.from_numpy(left)

    def _unsolved(self, shots: Shots) -> tuple[Shots, Any]:
        """Shots that the legs before this one leave, and with what beliefs."""
        if self.number == 0:
            return shots, None
        before = self._only(range(self.number))
        answer = before.run(shots.syndromes, log_odds=shots.log_odds, soft=True)
        rows = np.flatnonzero(~answer.explained)
        return shots.take(rows), answer.log_odds[rows] if self.leg.goes_on else None

    def _stubborn(self, shots: Shots, left: Any) -> np.ndarray:
        """The shots that this leg leaves unexplained."""
        odds = self.decoder._odds(shots.log_odds, len(shots))
        bits = self.decoder.code.syndromes(shots.syndromes)[0]
        return np.flatnonzero(~self.decoder._leg(self.number, bits, odds, left, False).explained)

    def _only(self, numbers: Any) -> Decoder:
        """The decoder with some of its legs, and no second stage."""
        from loopwise.apps.decoder.decoder import Decoder

        mine = self.decoder
        return Decoder(
            mine.code,
            rule=mine.rule,
            layered=mine.layered,
            legs=[mine.legs[number] for number in numbers],
            double=mine.double,
            threads=mine.threads,
        )

    def _wrong(self, shots: Shots, leg: Leg) -> NDArray[Any]:
        """What the whole decoder, with this leg, has wrong in each shot: bits, or 1 for a failure."""
        decoder = copy.copy(self.decoder)
        decoder.legs = [leg if number == self.number else one for number, one in enumerate(decoder.legs)]
        answer = decoder.run(shots.syndromes, log_odds=shots.log_odds)
        return wrong_bits(shots, answer) if self.of_bits else failed(decoder, shots, answer)


def _describe(source: Any) -> str:
    if isinstance(source, Shots):
        return f"{len(source)} shots (checksum {checksum(*(one for one in source.columns if one is not None))})"
    held = {name: value for name, value in vars(source).items() if isinstance(value, (np.ndarray, float, int, str))}
    return f"{type(source).__name__} {identify(held)}"


__getattr__ = old_names(__name__, {"Trained": "TrainedNumbers"})
