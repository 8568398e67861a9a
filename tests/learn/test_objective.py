"""What every objective can say without being told: that it goes on, has no measure, and no loss to compare by."""

from __future__ import annotations

from typing import Any

import pytest

from loopwise.learn.objective import Objective, RoundError
from loopwise.learn.progress import Tell


class Still(Objective):
    def round(self, tell: Tell) -> None:
        return None

    def weights(self) -> Any:
        return 0.0

    def set_weights(self, weights: Any) -> None: ...

    def state(self) -> Any:
        return None

    def load_state(self, state: Any) -> None: ...


def test_defaults() -> None:
    objective = Still()
    objective.begin(0, 0)
    assert (objective.ended, objective.measure(), objective.higher_is_better, objective.gains) == (
        "",
        None,
        False,
        None,
    )
    with pytest.raises(NotImplementedError, match="Still has no loss of its own to compare restarts by"):
        objective.loss()
    assert RoundError("the loss is nan", "; try less").advice == "; try less"
    with pytest.raises(TypeError):
        Objective()  # type: ignore[abstract]
