"""The rows of Table 3: ways to train a chain model of names, each with the settings it may choose from.

In: a :class:`NamesProtocol`. Out: :class:`NamesMethod` objects. Every learner gets the same features, text and decoder.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from loopwise.apps.chain import NAMES, SAMPLERANK, ChainLearner, ChainLikelihood, ChainPerceptron, ChainSVM
from loopwise.apps.chain import ChainSampleRank as TaggerSampleRank
from loopwise.walk import MIRA, AllValues, GibbsChange, Proposal, ScaledMargin, Start
from studies.harness.results import FULL, QUICK
from studies.samplerank.names.data import OPEN

LIKELIHOOD, PERCEPTRON, SSVM, CRFSUITE = "Likelihood (L-BFGS)", "Perceptron", "Structured SVM", "crfsuite (L-BFGS)"
SR1, SR10 = "SampleRank, 1 epoch", "SampleRank, 10 epochs"
ALL1, ALL10 = "SampleRank, all values, 1 epoch", "SampleRank, all values, 10 epochs"
EXACT = (LIKELIHOOD, PERCEPTRON, SSVM)  # learners with exact inference inside
ROWS = (SR10, SR1, ALL10, ALL1, LIKELIHOOD, PERCEPTRON, SSVM, CRFSUITE)


@dataclass(frozen=True)
class FeatureSet:
    """Templates of tags and of steps; ``item``: the heading of its numbers, ``key``: what its files are called."""

    key: str
    item: str
    templates: str
    step_templates: str = ""


# As published: factors of a word and its tag, of two tags, and of two tags and the word.
PUBLISHED_SET = FeatureSet("published", "Table 3", SAMPLERANK, SAMPLERANK)
RICHER_SET = FeatureSet("richer", "Table 3, richer features", NAMES)
SETS = (PUBLISHED_SET, RICHER_SET)


@dataclass(frozen=True)
class NamesProtocol:
    """How much of the table to run. ``sentences``: at most so many of each text; None: all."""

    corpora: tuple[str, ...] = tuple(corpus.name for corpus in OPEN)
    sets: tuple[str, ...] = tuple(features.key for features in SETS)
    sentences: int | None = None
    seeds: int = 3  # runs of a learner that draws at random
    epochs: int = 10
    iterations: int = 200  # of L-BFGS, at most
    penalties: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    costs: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # C of the SVM, over five orders of magnitude
    starts: tuple[str, ...] = ("truth", "previous", "random")  # of chains
    scales: tuple[float, ...] = (1.0, 5.0, 20.0, 100.0)  # of margins, each with all starts
    caps: tuple[float, ...] = (1e-2, 3e-2)  # of MIRA, times the margin's scale, with the best of these; else none
    sweeps: tuple[int, ...] = (2, 5)  # a sentence and epoch, with the best of these; else 1


PROTOCOLS = {
    FULL: NamesProtocol(),
    QUICK: NamesProtocol(
        corpora=("WNUT-17", "wikigold"),
        sentences=400,
        seeds=1,
        epochs=3,
        iterations=40,
        penalties=(0.3,),
        costs=(1e-2, 1e-1),
        scales=(1.0, 20.0),
        caps=(3e-2,),
        sweeps=(2,),
    ),
}


@dataclass(frozen=True)
class WalkSetting:
    """Of SampleRank: where chains start, by what margins are scaled, sweeps a sentence and epoch, the cap of MIRA."""

    start: str = "truth"
    scale: float = 1.0
    sweeps: int = 1
    cap: float = math.inf  # times the scale

    def __str__(self) -> str:
        said = f"{self.start}, margin x {self.scale:g}, sweeps {self.sweeps}"
        return said if self.cap == math.inf else f"{said}, cap {self.cap:g}"


Setting = float | WalkSetting


def label_of(setting: Setting) -> str:
    """As files and tables have it."""
    return str(setting) if isinstance(setting, WalkSetting) else f"{setting:g}"


@dataclass(frozen=True)
class NamesMethod:
    """A row: settings (a penalty, a C, how to walk) to choose from, and the learner with one of them; None: crfsuite's.

    ``random``: whether runs with other seeds differ. ``refined``: further settings to try, given the best of the first.
    """

    row: str
    sizes: tuple[Setting, ...]
    make: Callable[[Any], ChainLearner] | None
    random: bool = True
    refined: Callable[[Any], tuple[Setting, ...]] = lambda best: ()


def methods(protocol: NamesProtocol, features: FeatureSet) -> list[NamesMethod]:
    """The rows for a set of features."""

    def walk(row: str, epochs: int, proposal: Proposal) -> NamesMethod:
        # In a first epoch there is no previous state: the walk begins at the truth.
        starts = [start for start in protocol.starts if epochs > 1 or start != Start.PREVIOUS.value]
        first = tuple(WalkSetting(start, scale) for start in starts for scale in protocol.scales)

        def make(setting: WalkSetting) -> ChainLearner:
            return TaggerSampleRank(
                epochs, setting.sweeps, MIRA(setting.scale * setting.cap), ScaledMargin(setting.scale), proposal,
                start=Start(setting.start),
            )  # fmt: skip

        def refined(best: WalkSetting) -> tuple[Setting, ...]:
            more = [replace(best, sweeps=sweeps) for sweeps in protocol.sweeps]
            return (*more, *(replace(best, cap=cap) for cap in protocol.caps))

        return NamesMethod(row, first, make, refined=refined)

    gibbs, all_values, epochs = GibbsChange(scan=True), AllValues(scan=True), protocol.epochs
    found = [
        walk(SR10, epochs, gibbs),
        walk(SR1, 1, gibbs),
        walk(ALL10, epochs, all_values),
        walk(ALL1, 1, all_values),
        NamesMethod(LIKELIHOOD, protocol.penalties, lambda l2: ChainLikelihood(l2, protocol.iterations), random=False),
        NamesMethod(PERCEPTRON, (1.0,), lambda _: ChainPerceptron(epochs)),
        NamesMethod(SSVM, protocol.costs, lambda c: ChainSVM(c, epochs)),
    ]
    if crfsuite_can(features):
        found.append(NamesMethod(CRFSUITE, protocol.penalties, None, random=False))
    return found


def crfsuite_can(features: FeatureSet) -> bool:
    """Whether crfsuite is there and has such features: it knows none of two tags and a word."""
    return not features.step_templates and importlib.util.find_spec("pycrfsuite") is not None
