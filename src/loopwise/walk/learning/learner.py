"""What all learners share: fitting weights by walks, decoding, marginals.

In: a model, a proposal, a metric, a rule; documents. Out: weights and answers. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch

from loopwise.arguments import checked_whole
from loopwise.formats.files import PathLike
from loopwise.learn import history as learning
from loopwise.learn.course import Rounds
from loopwise.learn.distributed import ALONE, Team
from loopwise.learn.distributed import team as processes
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.progress import progress_bar
from loopwise.learn.trainer import Limits, train
from loopwise.loss.answers import Metric
from loopwise.walk.checkpoint import States, described_run, pack_states, pack_weights, unpack_states, unpack_weights
from loopwise.walk.cooling import Cooling
from loopwise.walk.engines import Fastest, WalkEngine
from loopwise.walk.learning.averaging import Averaging
from loopwise.walk.learning.objective import WalkObjective
from loopwise.walk.learning.rules import LearningRule, Towards
from loopwise.walk.learning.updates import Floats, PlainLearning, Tally, WalkWeights
from loopwise.walk.marginals import Marginals, estimate
from loopwise.walk.mixing import learn_parts
from loopwise.walk.models.model import Model
from loopwise.walk.pairs import Pair
from loopwise.walk.plan import Steps, Sweeps, WalkPlan, check_start, steps_of
from loopwise.walk.proposal import Proposal
from loopwise.walk.randomness import Stream, stream_number
from loopwise.walk.sessions import Searching, SearchResult, Visiting, WalkSession
from loopwise.walk.world import Start, World

_DECODING = 1 << 29  # the epoch of streams that decode: no training has so many
_SEARCH = Sweeps(50)  # steps of a search unless told
RESCORE = 1000  # steps of a search between two scores from scratch

Decoder = Callable[[Model, Any, Floats], Sequence[int]]  # model, document, weights: labels


@dataclass(frozen=True)
class WalkEpoch:
    """What is told of an epoch when it ends."""

    number: int
    tally: Tally
    learner: Learner


class Common(TypedDict, total=False):
    """Options that every learner has: which iterates are averaged, where walks begin, what runs them, randomness."""

    averaging: Averaging | None
    start: Start
    engine: WalkEngine | None
    seed: int


class Learner:
    """Weights learnt in a walk. Use one of its subclasses, such as :class:`SampleRank`.

    ``model`` (also called features), ``proposal`` and ``metric`` are the contract's three parts. ``weights`` are the
    averaged weights, which decode; ``raw`` those that walk. ``tally`` says what happened so far.
    """

    def __init__(
        self,
        model: Model,
        proposal: Proposal,
        *,
        metric: Any,
        rule: LearningRule,
        averaging: Averaging | None = None,
        engine: WalkEngine | None = None,
        seed: int = 0,
        start: Start = Start.TRUTH,
    ) -> None:
        if not isinstance(model, Model):
            raise ValueError(f"a learner needs a model of walks (lw.walk.Model), not {type(model).__name__}")
        if not isinstance(proposal, Proposal):
            raise ValueError(f"a learner needs a proposal (lw.walk.Proposal), not {type(proposal).__name__}")
        if seed < 0:
            raise ValueError(f"seed must not be negative, but is {seed}")
        self.model, self.proposal, self.metric, self.rule = model, proposal, metric, rule
        self.averaging, self.engine, self.seed, self.start = averaging or Averaging(), engine or Fastest(), seed, start
        self.state = WalkWeights.zeros(model.size, rule)
        self.state.since = self.averaging.burn_in
        self.epochs = 0
        self.tally = Tally()
        self.ends: list[States] = []  # of a walk that goes on: where each shard's last walks ended

    # ----------------------------------------------------------------------------------------------- weights

    @property
    def weights(self) -> Floats:
        """The mean of the weights after every step (all steps count, also those without update)."""
        return self.state.average()

    @property
    def raw(self) -> Floats:
        """The weights after the last step."""
        return self.state.values

    def set_weights(self, weights: Any) -> None:
        """Begins anew from these weights."""
        values = np.array(weights, dtype=np.float64)
        if values.shape != (self.model.size,):
            raise ValueError(
                f"weights of shape {values.shape} do not fit a model of {self.model.size}; give one for each feature"
            )
        self.state = WalkWeights.zeros(self.model.size, self.rule)
        self.state.values, self.state.since = values, self.averaging.burn_in
        self.epochs, self.tally, self.ends = 0, Tally(), []

    def state_dict(self) -> dict[str, Any]:
        """Everything that later epochs depend on, as tensors, numbers and lists of these."""
        return {
            "weights": pack_weights(self.state),
            "epochs": self.epochs,
            "tally": list(self.tally.numbers),
            "ends": [pack_states(states) for states in self.ends],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to where :meth:`state_dict` was asked; the same ``fit`` then gives the same weights, bit for bit."""
        self.state = unpack_weights(state["weights"], self.model.size)
        self.epochs, self.tally = int(state["epochs"]), Tally(*state["tally"])
        self.ends = [unpack_states(states) for states in state["ends"]]

    # -------------------------------------------------------------------------------------------------- fit

    def fit(
        self,
        documents: Iterable[Any],
        *,
        steps: Steps,
        epochs: int = 1,
        start: Start | None = None,
        shuffle: bool = True,
        shards: int = 1,
        jobs: int = 1,
        progress: bool = False,
        after_epoch: Callable[[WalkEpoch], None] | None = None,
        checkpoint: PathLike | None = None,
    ) -> Learner:
        """Walks ``steps`` steps over every document, ``epochs`` times; a second call goes on.

        ``start``: where each walk begins. ``shards`` parts of the documents learn apart and are mixed after each epoch,
        ``jobs`` at a time, and in turn by the processes that ``torchrun`` started, if it did; results depend on
        ``shards`` but not on ``jobs`` or processes. Each walk's randomness comes from seed,
        epoch and document alone. ``checkpoint``: a file, written after each epoch, from which the same call goes on if
        the process was stopped; the final weights are then the same, bit for bit. Time: epochs x documents x steps x
        factors touched.
        """
        checked_whole("epochs", epochs)
        objective = self.objective(documents, steps=steps, start=start, shuffle=shuffle, shards=shards, jobs=jobs)

        def told(epoch: learning.Epoch) -> None:
            if after_epoch is not None:
                after_epoch(WalkEpoch(self.epochs, objective.tally, self))

        run = {} if checkpoint is None else described_run(self, objective.plan, shards)
        limits = Limits((Rounds(),), epochs, reopens=True)
        with progress_bar(progress, epochs) as tell:
            ledger = Ledger.open(checkpoint, run, team=objective.team)
            train(objective, limits, ledger=ledger, callbacks=[told], tell=tell, team=objective.team)
        self.ends = []  # another call may have other documents
        return self

    def objective(
        self,
        documents: Iterable[Any],
        *,
        steps: Steps,
        start: Start | None = None,
        shuffle: bool = True,
        shards: int = 1,
        jobs: int = 1,
    ) -> WalkObjective:
        """What :meth:`fit` trains: for :func:`loopwise.learn.trainer.train`, with limits and files of your own."""
        known = list(documents)
        if shards < 1 or jobs < 1:
            raise ValueError(f"shards and jobs must be at least 1, not {shards} and {jobs}")
        self._check(known)
        plan = WalkPlan(self.model, known, steps, start or self.start, self.seed, shuffle)
        sessions = [
            self.engine.open(self.model, known[shard::shards], self.proposal, self.metric)
            for shard in range(min(shards, len(known)))
        ]
        team = processes()
        team.check_same({} if team.alone else described_run(self, plan, shards))
        return WalkObjective(self, plan, sessions, jobs, team)

    def epoch(self, plan: WalkPlan, sessions: Sequence[WalkSession], jobs: int = 1, team: Team = ALONE) -> Tally:
        """One walk over every document of the plan; what happened."""
        if self.averaging.last_epoch:
            self.state.sums, self.state.since = np.zeros(self.model.size), self.state.time
        visits = plan.visits(self.epochs)
        shards = len(sessions)
        parts = [
            (session, [_local(visit, shards) for visit in visits if visit.document % shards == shard])
            for shard, session in enumerate(sessions)
        ]
        self.state, tally = learn_parts(parts, self.rule, self.state, self.seed, jobs, team)
        if self.epochs == 0 and not tally.moved and tally.steps:
            raise ValueError(
                f"{type(self.proposal).__name__} changed nothing in {tally.steps} steps over {len(plan.documents)} "
                "documents: it must be able to reach another state, and documents must have more than one"
            )
        self.epochs += 1
        self.tally = self.tally + tally
        self.ends = [list(session.states()) for session in sessions] if plan.start is Start.PREVIOUS else []
        return tally

    def _check(self, documents: Sequence[Any]) -> None:
        if not documents:
            raise ValueError("there are no documents to learn from; give at least one")
        if self.rule.towards is not Towards.NONE:
            for number, document in enumerate(documents):
                if not self.model.complete(document):
                    raise ValueError(
                        f"{type(self).__name__} compares with the truth, and document {number} has items without one; "
                        "use SampleRank, which needs the signal only"
                    )

    def fit_pairs(self, pairs: Iterable[Pair]) -> Learner:
        """Learns from pairs of states of any source, one step a pair: pairs need not come from a walk."""
        if not self.rule.atomic:
            raise ValueError(f"{type(self).__name__} does not rank pairs of states; use SampleRank")
        learning = PlainLearning.of(self.rule, self.state)
        for pair in pairs:
            learning.time += 1
            learning.tally[0] += 1
            learning.rank(pair.difference, pair.gain)
        self.state, self.tally = learning.result(), self.tally + Tally(*learning.tally)
        return self

    # ----------------------------------------------------------------------------------------------- decode

    def decode(self, document: Any, **options: Any) -> Any:
        """The best state of one document; options as for :meth:`decode_all`."""
        return self.decode_all([document], **options)[0]

    def decode_all(
        self,
        documents: Iterable[Any],
        *,
        steps: Steps = _SEARCH,
        start: Start | None = None,
        cooling: Cooling | None = None,
        restarts: int = 1,
        decoder: Decoder | None = None,
        raw: bool = False,
        seed: int | None = None,
    ) -> list[Any]:
        """The best state of each document, found by a walk that cools from ``start``; the best of ``restarts`` walks.

        ``decoder``: a function of (model, document, weights) that gives labels, in place of the walk: an exact one,
        say. ``raw``: with the last weights instead of the averaged ones.
        """
        known, weights = list(documents), self.raw if raw else self.weights
        if decoder is not None:
            labels = [decoder(self.model, document, weights) for document in known]
        else:
            found = self.search(known, weights, steps=steps, start=start, cooling=cooling, restarts=restarts, seed=seed)
            labels = [best.labels for best in found]
        return [self.model.answer(document, best) for document, best in zip(known, labels, strict=True)]

    def search(
        self,
        documents: Sequence[Any],
        weights: Floats | None = None,
        *,
        steps: Steps,
        start: Start | None = None,
        cooling: Cooling | None = None,
        restarts: int = 1,
        seed: int | None = None,
    ) -> list[SearchResult]:
        """As :meth:`decode_all`, with scores: the best state of each document and what it scores."""
        checked_whole("restarts", restarts)
        begin = start or self.model.decoding_start()
        check_start(self.model, begin)
        session = self.engine.open(self.model, documents, self.proposal, None)
        how, chosen = Searching(cooling or Cooling(), RESCORE), self.weights if weights is None else weights
        best: list[SearchResult] = []
        for restart in range(restarts):
            visits = [
                Visiting(
                    number,
                    steps_of(self.model, document, steps),
                    begin,
                    stream_number(_DECODING + restart, number),
                )
                for number, document in enumerate(documents)
            ]
            found = session.search(chosen, visits, how, self.seed if seed is None else seed)
            pairs = zip(best or found, found, strict=True)
            best = [kept if kept.score >= new.score else new for kept, new in pairs]
        return best

    def evaluate(self, documents: Iterable[Any], metric: Metric | None = None, **options: Any) -> float:
        """``metric`` (by default the signal) of the decoded documents against their truths."""
        known = list(documents)
        measure = metric or self.metric
        if not isinstance(measure, Metric):
            raise ValueError(f"{measure!r} is no metric of answers; give one of lw.metric")
        rows = []
        for document, answer in zip(known, self.decode_all(known, **options), strict=True):
            gold = self.model.gold(document)
            if gold is None:
                gold = self.model.world(document, Start.TRUTH, Stream(self.seed)).labels()
            labels = answer.labels() if isinstance(answer, World) else answer
            rows.append(measure.statistics(torch.as_tensor(np.asarray(labels)), torch.as_tensor(np.asarray(gold))))
        return float(measure.combine(torch.stack(rows)))

    def marginals(
        self,
        document: Any,
        *,
        samples: int = 1000,
        burn_in: int | None = None,
        thinning: int | None = None,
        chains: int = 4,
        temperature: float = 1.0,
        seed: int | None = None,
    ) -> Marginals:
        """Marginals by counting states of several chains, and how well the chains agree (split R-hat).

        ``thinning`` steps between two samples, by default a sweep; ``burn_in`` steps at first, by default 100 sweeps.
        """
        session = self.engine.open(self.model, [document], self.proposal, None)
        sweep = max(self.model.items(document), 1)
        return estimate(
            session,
            self.model,
            document,
            self.weights,
            samples=samples,
            burn_in=100 * sweep if burn_in is None else burn_in,
            thinning=sweep if thinning is None else thinning,
            chains=chains,
            temperature=temperature,
            seed=self.seed if seed is None else seed,
        )


def _local(visit: Visiting, shards: int) -> Visiting:
    """The visit with the document's number within its shard."""
    return Visiting(visit.document // shards, visit.steps, visit.start, visit.stream)
