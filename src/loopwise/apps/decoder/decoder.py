r"""The decoder as users have it: decode, train, evaluate, save.

In: a code, shots. Out: :class:`Decoder`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.apps.decoder.answer import Answer
from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.legs import Leg
from loopwise.apps.decoder.rules import MinSum, Rule, SumProduct
from loopwise.apps.decoder.saving import kept, rebuilt
from loopwise.apps.decoder.sequence import LegSequence
from loopwise.apps.decoder.shots import Shots, ShotSampler, check_odds
from loopwise.apps.saved import Saved, written
from loopwise.arguments import checked_array, checked_kind, checked_whole
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, display_name
from loopwise.inference.families.parity import FEW_SHOTS, Bits, Decoded, Floats, LaneRoom, decode
from loopwise.inference.families.second_stage import OSD, Decimation, Second
from loopwise.learn.files.card import training_card
from loopwise.learn.files.checkpoint import checksum
from loopwise.learn.files.fields import Record
from loopwise.learn.history import History

if TYPE_CHECKING:
    from loopwise.apps.decoder.evaluation import Counts
    from loopwise.apps.decoder.losses import DecoderLoss
    from loopwise.apps.decoder.training import TrainedNumbers

_TOGETHER = 8192  # shots: what a decoder keeps of all of them at once


class Decoder(Saved):
    """Message passing over the checks of a code, trained for the failures that count.

    Parameters
    ----------
    code:
        A :class:`Code`; or a check matrix (SciPy sparse, rows of 0 and 1, the path of an ``.alist``, ``.txt``, ``.npz``
        or ``.npy`` file), with ``priors``. :meth:`from_circuit` and :meth:`from_model` take stim's.
    priors:
        The probability that a bit is flipped, one or one each; above 0 and below 1.
    rule:
        :class:`MinSum` (the default, without corrections) or :class:`SumProduct`.
    sweeps:
        At most so many; fewer where the syndrome is explained sooner.
    layered:
        Check by check, each hearing of the last, which takes about half the sweeps; else all at once (flooding).
    legs:
        Several settings in sequence, in place of ``sweeps``: :func:`relay` draws some, :meth:`fit` trains them.
    solutions:
        Legs go on until so many have explained the syndrome; the likeliest solution is taken.
    budget:
        At most so many sweeps of a shot over all legs: a leg that explains it sooner leaves more to those after it.
        None: as many as the legs have.
    distance:
        The distance of the code, if it is known: a solution that is so likely that nothing likelier does anything else
        (fewer flips than half of it, where all are as likely) is taken at once.
    stops:
        False makes all sweeps of a leg, whatever is explained: for soft output that is to be as good as it gets.
    second:
        What to try on shots that stay unexplained: :class:`OSD` or :class:`Decimation`.
    observables:
        A matrix of sums of flips that are to be right, where ``code`` is a matrix.
    double:
        Messages in double precision; by default in single.
    threads:
        Batches are split among so many.

    >>> repetition = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    >>> decoder = Decoder(repetition, 0.1, sweeps=10)
    >>> decoder.decode([1, 0, 0])
    array([1, 0, 0, 0], dtype=uint8)
    >>> decoder.run([[1, 0, 0], [0, 0, 1]]).status
    '2 of 2 syndromes explained; 1.0 sweeps a shot'
    """

    _no_weights: ClassVar[frozenset[str]] = frozenset({"code.priors"})

    def __init__(
        self,
        code: Any,
        priors: ArrayLike | None = None,
        *,
        rule: Rule | None = None,
        sweeps: int = 50,
        layered: bool = False,
        legs: Sequence[Leg] | None = None,
        solutions: int = 1,
        budget: int | None = None,
        distance: int | None = None,
        stops: bool = True,
        second: Second | None = None,
        observables: Any = None,
        double: bool = False,
        threads: int = 1,
    ) -> None:
        if isinstance(code, Code):
            self.code = code if priors is None else code.with_priors(priors)
        else:
            if priors is None:
                raise ValueError("a check matrix says nothing of how likely flips are; give priors")
            self.code = Code.of(code, priors, observables=observables)
        self.rule: Rule = MinSum() if rule is None else rule
        checked_kind("rule", self.rule, (MinSum, SumProduct), "a MinSum(...) or a SumProduct()")
        checked_kind("second", second, (OSD, Decimation, type(None)), "an OSD(...), a Decimation(...) or None")
        self.layered, self.second, self.double, self.threads = layered, second, double, threads
        checked_kind("legs", legs, (Sequence, type(None)), "a list of Leg")
        self.legs = [Leg(self.code, sweeps)] if legs is None else list(legs)
        self.solutions, self.stops, self.budget, self.distance = solutions, stops, budget, distance
        if not self.legs:
            raise ValueError("legs is empty; give at least one Leg")
        for name, value in (("solutions", solutions), ("threads", threads)):
            checked_whole(name, value)
        for name, flag in (("layered", layered), ("stops", stops), ("double", double)):
            checked_kind(name, flag, (bool, np.bool_), "True or False")
        for name, limit in (("budget", budget), ("distance", distance)):
            if limit is not None:
                checked_whole(name, limit)
        for leg in self.legs:
            checked_kind("each of legs", leg, Leg, "a Leg")
            if (leg.edges, leg.bits) != (self.code.checks.edges, self.code.bits):
                raise ValueError(f"{leg!r} was made for another code, with {leg.edges} edges and {leg.bits} bits")
        self.history_ = History()

    @classmethod
    def from_circuit(cls, circuit: Any, *, detectors: ArrayLike | None = None, **options: Any) -> Decoder:
        """A decoder for a stim circuit: the object, or the path of a ``.stim`` file (``.gz`` may follow).

        ``detectors``: those that are looked at (of one basis, say), by default all. Needs stim: ``pip install
        loopwise[decoder]``.
        """
        from loopwise.apps.decoder.circuits import code_of_circuit

        return cls(code_of_circuit(circuit, detectors), **options)

    @classmethod
    def from_model(cls, model: Any, *, detectors: ArrayLike | None = None, **options: Any) -> Decoder:
        """A decoder for a detector error model: stim's object, or the path of a ``.dem`` file."""
        from loopwise.apps.decoder.circuits import code_of_model

        return cls(code_of_model(model, detectors), **options)

    # --- Use ---------------------------------------------------------------------------------------------------------

    def decode(self, syndrome: ArrayLike) -> Bits:
        """The flips that explain one syndrome, ``[bits]``; :meth:`run` says whether they do."""
        given = checked_array("a syndrome", syndrome)
        if given.shape != (self.code.detector_count,):
            raise ValueError(
                f"a syndrome of this code has {self.code.detector_count} bits; the one given is of shape {given.shape}"
            )
        found: Bits = self.run(given[None]).corrections[0]
        return found

    def decode_batch(self, syndromes: ArrayLike) -> Bits:
        """The flips that explain each of some syndromes, ``[shots, bits]``."""
        return self.run(syndromes).corrections

    def decode_received(self, log_odds: ArrayLike) -> Bits:
        """Codewords from log-odds of 0 against 1 that a channel gives, ``[shots, bits]`` (:func:`awgn`, :func:`bsc`,
        :func:`erasures`)."""
        return self.receive(log_odds).corrections

    def receive(self, log_odds: ArrayLike, *, soft: bool = False) -> Answer:
        """What :meth:`decode_received` does, with all that is known of it."""
        given = checked_array("log-odds", log_odds)
        if given.ndim != 2:
            raise ValueError(
                f"log-odds are of shape {given.shape}; give a row of {self.code.bits} for each word received"
            )
        zeros = np.zeros((len(given), self.code.detector_count), np.uint8)
        return self.run(zeros, log_odds=given, soft=soft)

    def run(self, syndromes: ArrayLike, *, log_odds: ArrayLike | None = None, soft: bool = False) -> Answer:
        """Decodes ``[shots, detectors]`` bits; ``log_odds``: of each bit of each shot, in place of the code's own.

        Raises
        ------
        ValueError
            Where syndromes or log-odds have the wrong length, or are no bits or numbers.
        """
        bits, impossible = self.code.syndromes(syndromes)
        odds = self._odds(log_odds, len(bits))
        cuts = range(0, max(len(bits), 1), _TOGETHER)
        parts = [
            self._part(bits[a : a + _TOGETHER], odds[a : a + _TOGETHER] if len(odds) > 1 else odds, soft) for a in cuts
        ]
        columns = [np.concatenate(column) for column in zip(*(part[:5] for part in parts), strict=True)]
        hard, explained, sweeps, leg, left = columns
        flips = None if self.code.observables is None else self.code.flips(hard)
        second = sum(part[5] for part in parts)
        return Answer(hard, explained & ~impossible, sweeps, leg, left, flips, second)

    def warm(self, syndromes: ArrayLike, *, log_odds: ArrayLike | None = None) -> None:
        """Runs every leg and the second stage on a few of these syndromes, explained or not, so that :meth:`run` finds
        compiled what it needs for all of them: nothing, or seconds at the first use of a kernel."""
        bits, _ = self.code.syndromes(syndromes)
        odds = self._odds(log_odds, len(bits))
        # Few shots and many go in rows of lanes of their own; later legs have few of many.
        for count in {min(len(bits), FEW_SHOTS + 1), *([1] if len(self.legs) > 1 else [])}:
            shots = self._shots(bits[:count], odds[:count], False)
            shots.run_all()
            shots.solve()

    def _odds(self, given: ArrayLike | None, shots: int) -> Floats:
        kind = np.float64 if self.double else np.float32
        if given is None:
            return self.code.log_odds[None].astype(kind)
        odds = checked_array("log-odds", given).astype(kind)
        if odds.shape != (shots, self.code.bits):
            raise ValueError(
                f"log-odds are of shape {odds.shape}; there must be a row of {self.code.bits} for each of {shots} shots"
            )
        check_odds(odds)
        found: Floats = np.clip(odds, -1e4, 1e4)
        return found

    def _part(self, bits: Bits, odds: Floats, soft: bool) -> tuple[Any, ...]:
        """The fields of an answer."""
        shots = self._shots(bits, odds, soft)
        shots.run()
        second = shots.solve()
        left = shots.left if soft else shots.left[:0]
        return shots.hard, shots.explained, shots.sweeps, shots.leg, left, second

    def _shots(self, bits: Bits, odds: Floats, soft: bool) -> LegSequence:
        resumes = any(leg.goes_on for leg in self.legs[1:])
        return LegSequence(self, bits, odds, soft or resumes or self.second is not None)

    @torch.no_grad()
    def _leg(
        self,
        number: int,
        bits: Bits,
        odds: Floats,
        left: Floats | None,
        soft: bool,
        sweeps: int | None = None,
        room: LaneRoom | None = None,
    ) -> Decoded:
        """One leg on some shots, from the beliefs ``left`` by the last one if it resumes them; ``sweeps``: fewer than
        its own; ``room``: memory that legs share."""
        leg = self.legs[number]
        start = left if number and leg.goes_on else None
        own = leg.priors(torch.from_numpy(odds)).numpy().astype(odds.dtype)
        checks, passing, seen = leg.arranged(self.code.checks, leg.passing(self.rule, self.layered), bits)
        return decode(
            checks,
            passing,
            own,
            seen,
            leg.sweeps if sweeps is None else sweeps,
            start=start,
            stops=self.stops,
            soft=soft,
            threads=self.threads,
            room=room,
        )

    # --- Training and judging ----------------------------------------------------------------------------------------

    def fit(
        self,
        source: Shots | ShotSampler,
        loss: DecoderLoss | None = None,
        *,
        trained: TrainedNumbers | None = None,
        leg: int = -1,
        steps: int = 300,
        batch: int = 128,
        rate: float = 0.02,
        clip: float = 0.5,
        kept: Sequence[int] | None = None,
        hard: float = 0.0,
        spread: float = 0.05,
        dev: Shots | int = 4096,
        report: int = 50,
        checkpoint: PathLike | None = None,
        seed: int = 0,
        progress: bool = True,
    ) -> Self:
        """Trains the numbers of one leg of message passing.

        Parameters
        ----------
        source: shots, or a sampler (:class:`Flips`, :class:`Gaussian`, :class:`CircuitShots`); a noisier channel than
            the one to be used often trains better.
        loss: :class:`ResidualParity` (the default), :class:`ObservableFlips`, :class:`BitwiseCrossEntropy`,
            :class:`BlockError`.
        trained: which numbers; all but priors by default.
        leg: which leg; those before it are run first, and it is trained on the shots that they leave unexplained.
        steps, batch, rate, clip: Adam's, with a rate that falls like a cosine, and gradients no longer than ``clip``.
        kept: after which sweeps the loss looks, counted from 1; by default every third from the fifth on.
        hard: the share of each batch that is drawn among shots the leg itself leaves unexplained.
        spread: memory begins at random strengths of this size where there is none: equal ones keep symmetries.
        dev: shots to judge by, or how many are drawn for it; the numbers with the fewest failures on them (wrong bits,
            where the loss is of bits and each bit is to be right) are kept, if they are better than the start by more
            than chance, pair by pair, on the shots given or on new ones; else the leg stays as it was.
        report: steps between two looks at these.
        checkpoint: a file from which the same call goes on if it was stopped.

        Returns
        -------
        The decoder. Its ``history_`` has the rate of failures (or of wrong bits) on the held-out shots before training,
        and then that and the loss at each report; its ``best`` is 0 where the start was kept.
        """
        from loopwise.apps.decoder.losses import ResidualParity
        from loopwise.apps.decoder.training import LegTraining, TrainedNumbers, train

        looks = None if kept is None else tuple(kept)
        plan = LegTraining(
            trained or TrainedNumbers(), leg, steps, batch, rate, clip, looks, hard, spread, report, seed
        )
        self.history_ = train(self, source, loss or ResidualParity(), plan, dev, checkpoint, progress)
        shots = f"{len(source)} shots" if isinstance(source, Shots) else f"shots drawn by {type(source).__name__}"
        goal = type(loss or ResidualParity()).__name__
        self.card_ = training_card(f"{self.code!r}, {shots}", goal, self.history_, "failures", {"steps": steps})
        return self

    @property
    def _budget(self) -> str:
        later = "" if self.second is None else f", then {written(self.second)}"
        return f"{written(self.rule)}, {' and '.join(str(leg.sweeps) for leg in self.legs)} sweeps{later}"

    def evaluate(self, source: Shots | ShotSampler, shots: int | None = None, *, seed: int = 0) -> Counts:
        """Counts failures: of all shots given, or of so many drawn."""
        from loopwise.apps.decoder.evaluation import count_failures

        return count_failures(self, source, shots, seed)

    @property
    def checksum(self) -> str:
        """What tells its numbers, and those of its code, from another decoder's."""
        return checksum(*(tensor.numpy() for tensor in kept(self)[1].values()))

    # --- Files -------------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: PathLike, code: Code | None = None) -> Self:
        """The decoder that :meth:`save` wrote; nothing in the file is run.

        ``code``: the code it is to be used for (its priors may differ: numbers carry over); a file for other checks is
        refused.
        """
        found = super().load(path)
        if code is not None and code.fingerprint != found.code.fingerprint:
            raise FormatError(
                display_name(path),
                None,
                f"the decoder in the file is for another code: {found.code.fingerprint}, not {code.fingerprint}; "
                "train one for this code",
            )
        found.code = code or found.code
        return found

    @property
    def _is_fitted(self) -> bool:
        return True

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return kept(self)

    @classmethod
    def _rebuilt(cls, told: Record) -> Self:
        return rebuilt(cls, told)

    def __repr__(self) -> str:
        told = [self.code, self.rule, *self.legs]
        named = {
            "layered": False,
            "solutions": 1,
            "budget": None,
            "distance": None,
            "stops": True,
            "second": None,
            "double": False,
        }
        more = [f"{name}={getattr(self, name)!r}" for name, usual in named.items() if getattr(self, name) != usual]
        return f"Decoder({', '.join([*map(repr, told), *more])})"
