"""Colours."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.plot.style import COLOURS, check_kind


def _seen_by(matrix: np.ndarray, colour: str) -> np.ndarray:
    """A colour as someone with a colour-vision deficiency sees it, in CIELAB, where distances are differences seen."""
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    light = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    share = to_xyz @ np.clip(matrix @ light, 0, 1) / to_xyz.sum(1)
    x, y, z = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes (2009), severity 1: protanopia, deuteranopia, tritanopia.
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_first_colours_can_be_told_apart_by_everyone(deficiency: str) -> None:
    seen = [_seen_by(np.array(DEFICIENCIES[deficiency]), colour) for colour in COLOURS[:7]]
    gaps = [np.linalg.norm(one - other) for k, one in enumerate(seen) for other in seen[k + 1 :]]
    assert min(gaps) > 10  # about 2 can just be seen side by side


def test_what_is_no_kind_of_picture_is_told_before_anything_is_drawn() -> None:
    check_kind("curve.PNG")
    with pytest.raises(ValueError, match=r"'curve.txt' does not end in a kind of picture; use one of .*png"):
        check_kind("folder/curve.txt")
