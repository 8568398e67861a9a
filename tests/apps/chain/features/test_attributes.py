"""Attributes of words."""

from __future__ import annotations

from loopwise.apps.chain.features.attributes import long_shape, shape


def test_shapes() -> None:
    assert shape("McDonald's-77") == "XxXx'x-0" and long_shape("IBM-3é") == "XXX-0x"
