"""Images as the model takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwise.apps.grid_crf import GridCRF
from loopwise.apps.grid_crf.features import as_images

IMAGE = np.zeros((4, 4))


LABEL = np.zeros((4, 4), dtype=int)


@pytest.mark.parametrize(
    "images, labels, masks, words",
    [
        ([], [], None, "no images"),
        (IMAGE, LABEL, None, "first axis is the images"),
        ([IMAGE], [LABEL[:3]], None, "size 3x4, the image has 4x4"),
        ([IMAGE, IMAGE], [LABEL], None, "2 images, but labels for 1"),
        ([IMAGE], [LABEL + 2], None, "is 2; labels are 0 to 1"),
        ([IMAGE], [LABEL - 2], None, "is -2"),
        ([IMAGE], [LABEL + 0.5], None, "must be integers"),
        ([IMAGE], [LABEL - 1], None, "image 0 has no labelled pixel"),
        ([IMAGE], [LABEL], [np.zeros((4, 4), bool)], "image 0 has no labelled pixel"),
        ([IMAGE], [LABEL], [LABEL], "mask 0 must hold True"),
        ([IMAGE + np.nan], [LABEL], None, "no finite number, at row 0, column 0"),
        ([IMAGE, np.zeros((4, 4, 3))], [LABEL, LABEL], None, "image 1 has 3 channels"),
        ([np.zeros((4, 0))], [LABEL], None, "image 0 has shape"),
        ("folder", [LABEL], None, "not str"),
        ([np.full((4, 4), "a")], [LABEL], None, "no numbers"),
    ],
)
def test_bad_data(images: Any, labels: Any, masks: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GridCRF().fit(images, labels, masks=masks)


def test_integers_are_brought_to_one() -> None:
    whole = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    np.testing.assert_allclose(as_images(whole)[0], as_images(whole / 255)[0])
    np.testing.assert_allclose(as_images(whole.astype(np.uint16) * 257)[0], as_images(whole / 255)[0])
    np.testing.assert_array_equal(as_images(whole > 3)[0][..., 0], (whole > 3)[0])
