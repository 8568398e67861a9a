"""Random models that files can hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from loopwise.formats import (
    ModelKind,
    TableModel,
)

POTENTIALS = st.one_of(
    st.just(0.0),
    st.floats(min_value=0, max_value=1e300, allow_nan=False),
    st.sampled_from([5e-324, 0.1, 1 / 3, 1.7976931348623157e308]),
)


@st.composite
def models(draw: st.DrawFn, *, isolated: bool = True, labels: bool = False) -> TableModel:
    sizes = draw(st.lists(st.integers(1, 4), max_size=6))
    scopes = draw(
        st.lists(
            st.lists(st.sampled_from(range(len(sizes))), max_size=4, unique=True) if sizes else st.just([]),
            max_size=5,
        )
    )
    if not isolated:
        scopes += [[variable] for variable in range(len(sizes)) if not any(variable in scope for scope in scopes)]
    factors = []
    for scope in scopes:
        shape = [sizes[variable] for variable in scope]
        count = math.prod(shape)
        entries = draw(st.lists(POTENTIALS, min_size=count, max_size=count))
        factors.append((scope, np.array(entries).reshape(shape)))
    names = draw(st.sets(st.integers(0, 10**6), min_size=len(sizes), max_size=len(sizes))) if labels else ()
    kind = ModelKind.MARKOV if labels else draw(st.sampled_from(ModelKind))
    return TableModel.of(sizes, factors, kind=kind, labels=sorted(names))


def cell(state: tuple[int, ...]) -> float:
    """A different number for every joint state."""
    return 1 + sum(value * 10.0**axis for axis, value in enumerate(state))


SHAPE = (2, 3, 4)


STATES = list(itertools.product(*(range(size) for size in SHAPE)))  # last variable fastest
