"""An engine that keeps what it did, and the comparison of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwise import walk


class Tracing(walk.WalkEngine):
    """An engine that keeps every step."""

    def __init__(self, engine: walk.WalkEngine) -> None:
        self.engine, self.trace = engine, list[tuple[int, int, int, bool]]()

    def open(self, *arguments: Any) -> Any:
        session = self.engine.open(*arguments)
        session.trace = self.trace
        return session


def assert_alike(
    kind: type[walk.Learner], model: walk.Model, proposal: walk.Proposal, metric: Any, documents: list[Any],
    steps: int = 60, **options: Any,
) -> None:  # fmt: skip
    fit = options.pop("fit", {})
    found = []
    for engine in (walk.Plain(), walk.CompiledWalks()):
        tracing = Tracing(engine)
        learner = kind(model, proposal, metric=metric, engine=tracing, seed=5, **options)  # type: ignore[arg-type]
        learner.fit(documents, steps=steps, epochs=2, **fit)
        found.append((learner, list(tracing.trace)))
    (plain, steps_taken), (compiled, others) = found
    assert steps_taken == others
    assert plain.tally == compiled.tally
    assert np.array_equal(plain.raw, compiled.raw) and np.array_equal(plain.state.sums, compiled.state.sums)
    assert np.any(plain.raw)
    mine, theirs = (learner.search(documents, steps=steps) for learner, _ in found)
    assert [best.labels for best in mine] == [best.labels for best in theirs]
    assert np.allclose([best.score for best in mine], [best.score for best in theirs], atol=1e-9)


LEARNERS = (
    walk.SampleRank,
    walk.SampleRankSVM,
    walk.SampleRankSVM1,
    walk.CD,
    walk.PCD,
    walk.Hybrid,
)
