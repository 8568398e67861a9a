"""What stands above Table 1 on the page: how it was run, and what differs from the paper.

In: the results. Out: paragraphs.
"""

from __future__ import annotations

from studies.domke.images.data import BASES, BERKELEY, BIMODAL, BIMODAL_NAME, EXPONENT, FIELDS, GAUSSIAN, GAUSSIAN_NAME
from studies.domke.images.run import FIRST, PROTOCOLS, TOLERANCE, item_name
from studies.harness.results import Results


def table1_introduction(results: Results) -> list[str]:
    """How the table was made."""
    protocol = PROTOCOLS[results.mode]
    amounts = protocol.amounts
    standing_in = item_name(BERKELEY) not in results.items()
    cells = results.of_item(item_name(FIELDS if standing_in else BERKELEY))
    whole = list(dict.fromkeys(cell.row for cell in cells if cell.more.get(FIRST) == 0))
    natural = (
        "Thresholded smooth random fields stand in for the Berkeley images, which were not given (--data): "
        if standing_in
        else "Berkeley: "
    )
    size = "200x300" if amounts.crop is None else f"{amounts.crop[0]}x{amounts.crop[1]} (cut from the middle)"
    natural += (
        f"{amounts.train} training and {amounts.test} test images of {size} pixels"
        + ("" if standing_in else ", drawn at random from 200")
        + f"; a pixel is 1 above its image's mean; noise t^{EXPONENT:g} as published, drawn here. Training begins with "
        f"{protocol.few} of the images and goes on with all"
        + (f" (with all from the start: {', '.join(whole)})." if whole else ".")
    )
    four = BASES * amounts.copies - amounts.train_copies
    (zero, one), (wide, narrow) = BIMODAL[0], BIMODAL[1]
    small = (
        "Bimodal and Gaussian: the four base images of Kumar & Hebert were not at hand. Four images drawn here "
        f"(shapes, letters, rings, a blob; 64x64) stand in, so published figures are beside ours for orientation only. "
        f"{amounts.train_copies} noisy copies of the first are trained on, the other "
        f"{four} copies are for testing. Gaussian noise has "
        f"standard deviation {GAUSSIAN:g}; bimodal noise is an equal mixture of N({zero[0]:g}, {zero[1]:g}) and "
        f"N({one[0]:g}, {one[1]:g}) for label 0, of N({wide[0]:g}, {wide[1]:g}) and N({narrow[0]:g}, {narrow[1]:g}) "
        "for label 1 (mean, standard deviation). Both were set here, since the original article was not at hand either."
    )
    counts = [cell.n for name in (BIMODAL_NAME, GAUSSIAN_NAME) for cell in results.of_item(item_name(name))]
    if max(counts, default=0) > four:  # runs from before 2026-11-18 had the four only
        small += (
            f" Beside them {amounts.drawn} further images drawn here (shapes and text, stand-ins too) are tested on, "
            f"{amounts.drawn_copies} copies each."
        )
    return [
        "Table 1: binary denoising with the eight-weight grid model of eq. 27, TRW-S with edge probabilities of .5 to "
        f"a tolerance of {TOLERANCE:g}, two-sided perturbation, L-BFGS (its steps scaled by the "
        "curvature that is measured on a few of the images first). "
        "The surrogate likelihood starts at 0, univariate and clique likelihood where it ends, the smooth error "
        "(sharpness 50) where the univariate likelihood ends. Rows beyond the paper's four: training through five "
        "sweeps only, used with five sweeps; the smooth error of cliques; the univariate likelihood trained through "
        "every sweep, not by perturbation.",
        natural,
        small,
    ]
