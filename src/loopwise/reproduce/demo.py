"""The demo from beginning to end: what is run, and the two files it leaves.

In: a folder, a seed. Out: ``page.html``, which holds everything it shows, and ``results.json`` in the schema of all
reproductions (:mod:`loopwise.reproduce.results`). Both are written whole or not at all.
"""

from __future__ import annotations

from pathlib import Path

from loopwise.formats import atomic_write
from loopwise.reproduce.demo_image import ImageAmounts
from loopwise.reproduce.demo_page import demo_page
from loopwise.reproduce.demo_study import Findings, Tell, run_demo
from loopwise.reproduce.demo_summary import cells, claims
from loopwise.reproduce.demo_trials import Amounts
from loopwise.reproduce.results import QUICK, Results

PAPER = "demo"
PAGE = "page.html"
TOY = Amounts(side=5, models=2, train=64, test=64, burn_in=50, epochs=4, horizon=10)
TOY_IMAGE = ImageAmounts(side=24, epochs=4)


def demonstrate(folder: Path, seed: int, tell: Tell, *, quick: bool = False, workers: int | None = None) -> Findings:
    """Runs the demo, or a toy of it, and writes its files; a folder that holds other results is refused at once."""
    mode = QUICK if quick else PAPER
    Results.open(folder, PAPER, mode, seed)
    amounts, image = (TOY, TOY_IMAGE) if quick else (Amounts(), ImageAmounts())
    findings = run_demo(amounts, image, seed, tell, workers)
    results = Results(folder, PAPER, mode, seed)
    results.seconds = findings.seconds
    for cell in cells(findings):
        results.put(cell)
    results.claim(*claims(findings))
    with atomic_write(folder / PAGE) as stream:
        stream.write(demo_page(findings, toy=quick))
    return findings
