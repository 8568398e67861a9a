"""The demo from beginning to end: what is run, and the two files it leaves.

In: a folder, a seed. Out: ``page.html``, which holds everything it shows, and ``results.json`` in the schema of all
studies (:mod:`loopwise.demo.results`). Both are written whole or not at all.
"""

from __future__ import annotations

from pathlib import Path

from loopwise.demo.findings import Findings, Tell, run_demo
from loopwise.demo.image import ImageAmounts
from loopwise.demo.page import demo_page
from loopwise.demo.results import results_of, write_results
from loopwise.demo.summary import cells, claims
from loopwise.demo.trials import DemoAmounts
from loopwise.formats import atomic_write

PAPER, QUICK = "demo", "quick"
PAGE = "page.html"
TOY = DemoAmounts(side=5, models=2, train=64, test=64, burn_in=50, epochs=4, horizon=10)
TOY_IMAGE = ImageAmounts(side=24, epochs=4)


def demonstrate(folder: Path, seed: int, tell: Tell, *, quick: bool = False, workers: int | None = None) -> Findings:
    """Runs the demo, or a toy of it, and writes its files; a folder that holds other results is refused at once."""
    results_of(folder, PAPER)
    amounts, image = (TOY, TOY_IMAGE) if quick else (DemoAmounts(), ImageAmounts())
    findings = run_demo(amounts, image, seed, tell, workers)
    facts = {"paper": PAPER, "mode": QUICK if quick else PAPER, "seed": seed}
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, facts, cells(findings), claims(findings), findings.seconds)
    with atomic_write(folder / PAGE) as stream:
        stream.write(demo_page(findings, toy=quick))
    return findings
