"""How firm a prior a small table needs: tried on rows that training does not see.

In: a system, examples, how it is to be trained. Out: a strength for :class:`~loopwise.potentials.priors.L2`. Stage:
learning.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import evaluate
from loopwise.learn.fit import fit
from loopwise.learn.progress import progress_bar
from loopwise.learn.stages import Goals, as_stages, target
from loopwise.learn.system import System
from loopwise.learn.trainer import TrainingError
from loopwise.potentials.priors import L2

ROW_STRENGTHS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)  # in what one row counts
MIDDLE = 3  # the place of the first one tried, from which the better way is followed
FEW = 300  # examples that are tried in five folds, more in three: their trainings see nearly as much as the last does


def choose_l2(
    system: System, examples: Examples, goal: Goals, *, seed: int = 0, progress: bool = True, **options: Any
) -> float:
    """The strength of an L2 prior with which held-out examples lose least, by cross-validation.

    Strengths are 0, .1, .3, 1, 3 or 10 over the number of examples: what is known of a weight grows with it, and the
    prior vanishes. Each is tried in five folds (of more than 300 examples in three), beginning with 1 and going on to
    the next while that is better: 9 to 25 trainings on most of the examples. ``system`` stays as it is.

    Parameters
    ----------
    system, examples, goal, seed, progress:
        As for :func:`~loopwise.learn.fit`; the goal (the last stage) is also the judge.
    options: what else :func:`~loopwise.learn.fit` is told, but for a prior and development data.

    Returns
    -------
    A strength on the scale of ``fit(prior=L2(strength))``.

    >>> import loopwise as lw
    >>> graph, rows = lw.chain(2), [[0, 0], [0, 1], [1, 0], [1, 1]] * 3  # neither column says anything of the other
    >>> examples = lw.Examples.of(graph, rows, [lw.Role.INPUT, lw.Role.OUTPUT])
    >>> system = lw.System(lw.TablePotentials(graph), lw.BP())
    >>> choose_l2(system, examples, lw.loss.SurrogateLikelihood(), epochs=5) >= 1 / 12
    True
    """
    order = np.random.default_rng([seed, 1]).permutation(len(examples))
    count = 5 if len(examples) <= FEW else 3
    folds = [order[number::count] for number in range(count)]
    weaker, stronger = ROW_STRENGTHS[:MIDDLE][::-1], ROW_STRENGTHS[MIDDLE + 1 :]
    with progress_bar(progress, (1 + len(weaker) + 1) * count) as tell:
        done = 0

        def loss(strength: float) -> float:
            nonlocal done
            total = 0.0
            for fold in folds:
                tell(done, f"trying a prior of {strength:g} rows on held-out rows")
                total += _held_out(system, examples, fold, goal, strength, seed, options)
                done += 1
            return total

        best, least = ROW_STRENGTHS[MIDDLE], loss(ROW_STRENGTHS[MIDDLE])
        for further in (stronger, weaker):
            if best != ROW_STRENGTHS[MIDDLE]:
                break
            for strength in further:
                found = loss(strength)
                if not found < least:
                    break
                best, least = strength, found
    return best / len(examples)


def _held_out(
    system: System, examples: Examples, fold: Integers, goal: Goals, strength: float, seed: int, options: dict[str, Any]
) -> float:
    """The total loss of a fold after training on the others; 0 where it says nothing, infinite where training fails."""
    kept, out = examples[np.setdiff1d(np.arange(len(examples)), fold)], examples[fold]
    if not (len(kept) and len(out) and kept.scored and out.scored):
        return 0.0
    copied = copy.deepcopy(system)
    prior = L2(strength / len(kept)) if strength else None
    try:
        fit(copied, kept, goal, seed=seed, prior=prior, progress=False, **options)
    except TrainingError:
        return math.inf
    return len(out) * evaluate(copied, out, target(as_stages(goal)))
