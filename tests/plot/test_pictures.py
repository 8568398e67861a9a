"""Images by what their pixels are."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise import plot


def test_images_by_what_their_pixels_are() -> None:
    labels, chances = np.array([[0, 1], [2, 1]]), np.array([[0.0, 0.5], [1.0, 0.25]])
    (drawn,) = plot.image(labels, states=3).images
    assert drawn.get_cmap().N == 3 and drawn.get_clim() == (-0.5, 2.5)
    assert plot.image(chances, grey=True).images[0].get_cmap().name == "gray"
    assert plot.image(chances).images[0].get_cmap().name == "cividis"
    assert plot.image(np.full((2, 2, 3), 2.0)).images[0].get_array().max() == 1.0
    with pytest.raises(ValueError, match=r"not one of shape \(2, 2, 4\)"):
        plot.image(np.zeros((2, 2, 4)))
    grid = plot.gallery([{"noisy": chances, "truth": labels}, {"noisy": chances}])
    assert grid.shape == (2, 2) and not grid[1, 1].get_visible() and grid[0, 1].get_title() == "truth"
    with pytest.raises(ValueError, match="no image"):
        plot.gallery([])
