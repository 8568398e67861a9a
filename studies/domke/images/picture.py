"""Figure 1 of Domke 2010: noisy images, the truth, and marginals of models trained for each loss.

In: the trained weights of Table 1. Out: a PNG file.
"""

from __future__ import annotations

from pathlib import Path

from loopwise.plot import gallery, save
from studies.domke.images.data import BERKELEY, FIELDS, find_berkeley, natural
from studies.domke.images.names import (
    PUBLISHED_ROWS,
)
from studies.domke.images.run import ImageModels, ImageProtocol, build, set_weights, trainings

PICTURE = "figure1.png"
SHOWN = 3  # test images
CAPTION = (
    "Test images, the probability that a pixel is 1 under the model trained for each loss, and the truth (Figure 1 of "
    "the paper; here the images of this run)."
)


def draw_figure1(models: ImageModels, protocol: ImageProtocol, seed: int, data: Path | None, folder: Path) -> None:
    """Draws the picture, if the models for natural images are there."""
    path = find_berkeley(data)
    name = BERKELEY if path is not None else FIELDS
    entries = {row: models.get(name, row) for row in PUBLISHED_ROWS}
    if not all(entry.get("finished") for entry in entries.values()):
        return
    images, labels = (part[:SHOWN] for part in natural(path, protocol.amounts, seed).test)
    rows = [{"noisy": image} for image in images]
    inference = {training.row: training.inference for training in trainings(name)}
    for row, entry in entries.items():
        model = build(inference[row])
        set_weights(model, entry["weights"])
        for panel, marginals in zip(rows, model.predict_marginals(images), strict=True):
            panel[row] = marginals[..., 1]
    for panel, label in zip(rows, labels, strict=True):
        panel["truth"] = label
    save(gallery(rows, width=2.2), folder / PICTURE)
