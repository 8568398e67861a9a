"""Iterative parameter mixing: parts of the documents learn from common weights, which are then averaged.

In: sessions and visits, one of each a part. Out: mixed weights. Stage: walking (McDonald, Hall and Mann 2010).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopwise.learn.distributed import ALONE, Team
from loopwise.walk.learning.rules import LearningRule
from loopwise.walk.learning.updates import Floats, Tally, WalkWeights
from loopwise.walk.plain_session import PlainSession
from loopwise.walk.sessions import Visiting, WalkSession

Part = tuple[WalkSession, Sequence[Visiting]]
Outcome = tuple[WalkWeights, Tally, list[list[int] | None]]


def learn_parts(
    parts: Sequence[Part], rule: LearningRule, weights: WalkWeights, seed: int, jobs: int, team: Team = ALONE
) -> tuple[WalkWeights, Tally]:
    """One epoch: each part from ``weights``, ``jobs`` at a time; then the mean, weighted by steps.

    The processes of a ``team`` learn parts in turn; what they learn does not depend on how many they are.

    Compiled walks run in threads of this process (they hold no lock), plain ones in processes. With one part this is
    serial learning, number for number.
    """
    if len(parts) == 1:
        session, visits = parts[0]
        return session.learn(rule, weights, visits, seed)
    begun = _fresh(weights)
    mine = _in_parallel(parts[team.rank :: team.size], rule, begun, seed, jobs)
    everybody = team.gathered(mine)
    done = [everybody[place % team.size][place // team.size] for place in range(len(parts))]
    total = Tally()
    for (session, _), (_, tally, states) in zip(parts, done, strict=True):
        total = total + tally
        session.set_states(states)
    return mixed(weights, [learned for learned, _, _ in done]), total


def _fresh(weights: WalkWeights) -> WalkWeights:
    """The same weights with an average that begins now."""
    since = max(weights.since, weights.time)
    return WalkWeights(weights.values, np.zeros_like(weights.sums), weights.squares, weights.time, since)


def mixed(before: WalkWeights, parts: Sequence[WalkWeights]) -> WalkWeights:
    """Weighted means by steps: of the weights, of AdaGrad's sums, of the averages; time goes on by the longest part."""
    steps = np.array([part.time - before.time for part in parts], dtype=np.float64)
    shares = steps / max(steps.sum(), 1.0) if steps.sum() else np.full(len(parts), 1.0 / len(parts))
    values = _mean(shares, [part.values for part in parts])
    squares = _mean(shares, [part.squares for part in parts])
    time = max(part.time for part in parts)
    earlier, later = max(before.time - before.since, 0), max(time - max(before.since, before.time), 0)
    average = values
    if later:
        average = (earlier * before.average() + later * _mean(shares, [part.average() for part in parts])) / (
            earlier + later
        )
    counted = earlier + later
    return WalkWeights(values, (values - average) * counted, squares, time, time - counted if counted else before.since)


def _mean(shares: Floats, arrays: Sequence[Floats]) -> Floats:
    total = np.zeros_like(arrays[0])
    for share, array in zip(shares, arrays, strict=True):
        total += share * array
    return total


def _in_parallel(
    parts: Sequence[Part], rule: LearningRule, weights: WalkWeights, seed: int, jobs: int
) -> list[Outcome]:
    if jobs == 1:
        return [_learn(session, rule, weights, visits, seed) for session, visits in parts]
    try:
        import joblib  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "learning in several jobs needs joblib: install it (pip install 'loopwise[sklearn]'), or give jobs=1"
        ) from None
    plain = any(isinstance(session, PlainSession) for session, _ in parts)
    work = joblib.delayed(_learn)
    done: list[Outcome] = joblib.Parallel(n_jobs=jobs, prefer="processes" if plain else "threads")(
        work(session, rule, weights, visits, seed) for session, visits in parts
    )
    return done


def _learn(
    session: WalkSession, rule: LearningRule, weights: WalkWeights, visits: Sequence[Visiting], seed: int
) -> Outcome:
    learned, tally = session.learn(rule, weights, visits, seed)
    return learned, tally, session.states()
