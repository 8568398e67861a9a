"""The averaged structured perceptron, and decoders for it.

In: a model, documents, a decoder. Out: weights. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopwise.formats.files import PathLike
from loopwise.inference.base import Inference
from loopwise.inference.exact.method import Exact
from loopwise.learn.course import Rounds
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import VectorObjective
from loopwise.walk.checkpoint import described_all, pack_weights, unpack_weights
from loopwise.walk.cooling import Cooling
from loopwise.walk.engines import Fastest, WalkEngine
from loopwise.walk.learning.averaging import Averaging
from loopwise.walk.learning.learner import RESCORE, Decoder
from loopwise.walk.learning.rules import LearningRule
from loopwise.walk.learning.steps import Step, Unit
from loopwise.walk.learning.updates import Floats, PlainLearning, WalkWeights
from loopwise.walk.models.graph_model import GraphModel
from loopwise.walk.models.model import Model
from loopwise.walk.plan import Steps, Sweeps, steps_of
from loopwise.walk.proposal import Proposal
from loopwise.walk.randomness import Stream
from loopwise.walk.sessions import Searching, Visiting
from loopwise.walk.world import Start


@dataclass(frozen=True)
class ExactDecoder:
    """The best labelling of a document by an inference method (by default exact, on a junction tree).

    For a chain this is Viterbi's; a graph too dense for it is refused.
    """

    inference: Inference = field(default_factory=lambda: Exact(temperature=0))

    def __call__(self, model: Model, document: Any, weights: Floats) -> Sequence[int]:
        if not isinstance(model, GraphModel):
            raise ValueError(f"exact decoding needs a GraphModel, not {type(model).__name__}")
        kept = model.read()
        model.write(weights)
        try:
            evidence = {
                int(variable): int(document.truth[variable])
                for variable in np.setdiff1d(np.arange(document.graph.variables), document.free_variables)
            }
            best: list[int] = self.inference(document.graph, model.tables(document), evidence).assignment.tolist()
        finally:
            model.write(kept)
        return best


@dataclass(frozen=True)
class AnnealedDecoder:
    """A walk that cools, as :meth:`Learner.decode` does it."""

    proposal: Proposal
    steps: Steps = field(default_factory=lambda: Sweeps(20))
    cooling: Cooling = field(default_factory=Cooling)
    engine: WalkEngine = field(default_factory=Fastest)
    seed: int = 0

    def __call__(self, model: Model, document: Any, weights: Floats) -> Sequence[int]:
        session = self.engine.open(model, [document], self.proposal, None)
        visit = Visiting(0, steps_of(model, document, self.steps), model.decoding_start(), 0)
        return session.search(weights, [visit], Searching(self.cooling, RESCORE), self.seed)[0].labels


class AveragedPerceptron:
    r"""The structured perceptron (Collins 2002): :math:`\phi(y^*) - \phi(\hat y)` is added where the answer is wrong.

    One step a document; weights are averaged over all steps. ``decoder(model, document, weights)`` gives labels.
    """

    def __init__(
        self,
        features: Model,
        decoder: Decoder,
        *,
        step: Step | None = None,
        averaging: Averaging | None = None,
        seed: int = 0,
    ) -> None:
        self.model, self.decoder, self.seed = features, decoder, seed
        self.rule = LearningRule(step=step or Unit())
        self.averaging = averaging or Averaging()
        self.state = WalkWeights.zeros(features.size, self.rule)
        self.state.since = self.averaging.burn_in
        self.epochs = 0
        self.mistakes: list[int] = []  # documents decoded wrongly, epoch by epoch

    @property
    def weights(self) -> Floats:
        """The averaged weights."""
        return self.state.average()

    def fit(
        self, documents: Iterable[Any], *, epochs: int = 1, checkpoint: PathLike | None = None
    ) -> AveragedPerceptron:
        """Goes over the documents in a new order each epoch.

        ``checkpoint``: a file, written after each epoch, from which the same call goes on if the process was stopped.
        """
        known = list(documents)
        if not known:
            raise ValueError("there are no documents to learn from; give at least one")
        ledger = Ledger.open(checkpoint, {} if checkpoint is None else self._run(known))
        train(_Passes(self, known), Limits((Rounds(),), epochs, reopens=True), ledger=ledger)
        return self

    def _run(self, documents: Sequence[Any]) -> dict[str, str]:
        """What tells a call of :meth:`fit` from others."""
        return {
            "learner": type(self).__name__,
            "model": f"{type(self.model).__name__} of {self.model.size} weights",
            "decoder": identify(self.decoder),
            "rule": identify(self.rule),
            "averaging": identify(self.averaging),
            "documents": described_all(documents),
            "seed": str(self.seed),
            "beginning": f"epoch {self.epochs} (checksum {checksum(self.state.values, self.state.sums)})",
        }

    def decode(self, document: Any, decoder: Decoder | None = None) -> Any:
        """The decoder's answer under the averaged weights."""
        return self.model.answer(document, (decoder or self.decoder)(self.model, document, self.weights))

    def step(self, learning: PlainLearning, document: Any) -> bool:
        """One document; whether it was decoded wrongly."""
        learning.time += 1
        truth = self.model.world(document, Start.TRUTH, Stream(self.seed))
        guess = self.model.world_of(document, self.decoder(self.model, document, np.array(learning.weights)))
        if guess.key() == truth.key():
            return False
        delta = self.model.features(truth)
        for key, value in self.model.features(guess).items():
            delta[key] = delta.get(key, 0.0) - value
        learning.step(delta)
        return True


class _Passes(VectorObjective):
    """One call of :meth:`AveragedPerceptron.fit` in progress: a round is a pass over the documents."""

    def __init__(self, perceptron: AveragedPerceptron, documents: Sequence[Any]) -> None:
        self.perceptron, self.documents = perceptron, documents
        self.learning = PlainLearning.of(perceptron.rule, perceptron.state)

    def round(self, tell: Tell) -> float:
        mine, learning = self.perceptron, self.learning
        if mine.averaging.last_epoch:
            learning.sums, learning.since = [0.0] * mine.model.size, learning.time
        order = np.random.default_rng([mine.seed, mine.epochs]).permutation(len(self.documents)).tolist()
        wrong = sum(mine.step(learning, self.documents[number]) for number in order)
        mine.mistakes.append(wrong)
        mine.epochs += 1
        mine.state = learning.result()
        return wrong / len(self.documents)

    def now(self) -> Floats:
        return self.perceptron.weights

    def state(self) -> dict[str, Any]:
        mine = self.perceptron
        return {"weights": pack_weights(mine.state), "epochs": mine.epochs, "mistakes": mine.mistakes}

    def load_state(self, state: Mapping[str, Any]) -> None:
        mine = self.perceptron
        mine.state = unpack_weights(state["weights"], mine.model.size)
        mine.epochs, mine.mistakes = int(state["epochs"]), list(state["mistakes"])
        self.learning = PlainLearning.of(mine.rule, mine.state)
