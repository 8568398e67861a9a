"""Numbers ahead are those that come, and looking at them draws none."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.decorators import kernel
from loopwise.inference.gibbs.kernels.gibbs import next_uniform, seed_stream
from loopwise.walk.kernels.ahead import uniform_ahead


@kernel
def look(generator, skipped):  # type: ignore[no-untyped-def]
    return uniform_ahead(generator, skipped)


@pytest.mark.parametrize("skipped", [False, True])
def test_the_number_that_comes(skipped: bool) -> None:
    words = np.zeros(4, dtype=np.uint64)
    seed_stream(words, 3, 1)
    seen = look(words, skipped)
    drawn = [next_uniform(words) for _ in range(2)]
    assert seen == drawn[int(skipped)]
