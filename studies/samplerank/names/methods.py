"""The rows of Table 3: ways to train a chain model of names, each with the settings it may choose from.

In: a :class:`NamesProtocol`. Out: :class:`NamesMethod` objects. Every learner gets the same features, text and decoder.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass

from loopwise.apps.chain import NAMES, SAMPLERANK, SVM, Learner, Likelihood, Perceptron
from loopwise.apps.chain import SampleRank as TaggerSampleRank
from loopwise.walk import MIRA, AllValues, Gibbs, Proposal
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
    caps: tuple[float, ...] = (1e-2, 3e-2, math.inf)  # of MIRA, whose steps are about 3e-2


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
        caps=(3e-2,),
    ),
}


@dataclass(frozen=True)
class NamesMethod:
    """A row: sizes (a penalty, a C, a cap) to choose from, and the learner with one of them; None: crfsuite's own.

    ``random``: whether runs with other seeds differ.
    """

    row: str
    sizes: tuple[float, ...]
    make: Callable[[float], Learner] | None
    random: bool = True


def methods(protocol: NamesProtocol, features: FeatureSet) -> list[NamesMethod]:
    """The rows for a set of features."""

    def walk(epochs: int, proposal: Proposal) -> Callable[[float], Learner]:
        return lambda cap: TaggerSampleRank(epochs, step=MIRA(cap), proposal=proposal)

    gibbs, all_values, epochs, caps = Gibbs(scan=True), AllValues(scan=True), protocol.epochs, protocol.caps
    found = [
        NamesMethod(SR10, caps, walk(epochs, gibbs)),
        NamesMethod(SR1, caps, walk(1, gibbs)),
        NamesMethod(ALL10, caps, walk(epochs, all_values)),
        NamesMethod(ALL1, caps, walk(1, all_values)),
        NamesMethod(LIKELIHOOD, protocol.penalties, lambda l2: Likelihood(l2, protocol.iterations), random=False),
        NamesMethod(PERCEPTRON, (1.0,), lambda _: Perceptron(epochs)),
        NamesMethod(SSVM, protocol.costs, lambda c: SVM(c, epochs)),
    ]
    if crfsuite_can(features):
        found.append(NamesMethod(CRFSUITE, protocol.penalties, None, random=False))
    return found


def crfsuite_can(features: FeatureSet) -> bool:
    """Whether crfsuite is there and has such features: it knows none of two tags and a word."""
    return not features.step_templates and importlib.util.find_spec("pycrfsuite") is not None
