"""Domke 2010, *Implicit Differentiation by Perturbation*: which of its experiments there are, and what they write.

In: an order. Out: results, pictures. Each experiment replaces its own cells and leaves those of the other alone; the
pages show all there is.
"""

from __future__ import annotations

from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from studies.domke.gradients import run as gradients
from studies.domke.gradients.claims import CHANGED as GRADIENTS_CHANGED
from studies.domke.gradients.claims import RETIRED, figure2_claims
from studies.domke.gradients.run import ENTROPIES, ESTIMATORS, INFERENCE, item_name, problems, run_figure2
from studies.domke.images import run as images
from studies.domke.images.claims import CHANGED as IMAGES_CHANGED
from studies.domke.images.claims import table1_claims
from studies.domke.images.data import FIELDS
from studies.domke.images.page import table1_introduction
from studies.domke.images.picture import CAPTION as FIGURE1_CAPTION
from studies.domke.images.picture import PICTURE as FIGURE1
from studies.domke.images.picture import draw_figure1
from studies.domke.images.run import STANDING_IN, ImageModels, count_steps, run_table1
from studies.harness.page import Page
from studies.harness.results import Cell, Deadline, Results
from studies.harness.study import Study, StudyOrder, unfinished

QUESTION = (
    "To train a model for a loss of its marginals one needs their gradient. How good, and how dear, are the "
    "ways to compute it, and do images come out better when each is trained for the loss that is reported?"
)

PICTURE = "figure2.png"
FIGURE = "figure 2"
TABLE = ("table 1", "figure 1")  # the figure shows what the table trained
INTRODUCTION = (
    "Figure 2: what a gradient costs on grids with 5 values a variable, loss the univariate likelihood of a random "
    "labelling. Inference is sequential message passing to a tolerance of 1e-5; perturbation is two-sided; back-BP "
    "stops at 1e-4; the direct solver is a sparse LU factorisation, run to 64x64; MINRES stands in for SYMMLQ, which "
    "SciPy does not have; unroll (back-propagation through every sweep) is not in the paper.",
    "Times are of the backward alone (of inference: the forward alone), on one thread, the mean over seeds. "
    "Errors are relative to "
    "the direct solution at inference converged to 1e-10; where that is too large, to back-BP at 1e-10. The paper "
    "prints curves without numbers, so their shapes are stated as claims.",
)
CAPTIONS = {
    FIGURE1: FIGURE1_CAPTION,
    PICTURE: "Seconds (above) and relative error (below) of each gradient, against size and strength.",
}


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """The table with its figure, then the figure that is by itself."""
    done = of = 0
    notes: tuple[str, ...] = ()
    if _wants_table(order.parts):
        done, of = _run_table(results, order, deadline)
        notes += unfinished(done, of, "rows of Table 1")
    if FIGURE in order.parts:
        measured, grids = _run_figure(results, order.after(done), deadline)
        notes += unfinished(measured, grids, "grids of Figure 2")
        done, of = done + measured, of + grids
    _arrange(results)
    results.note(*notes)
    return done, of


def _run_figure(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    done, of = run_figure2(results, gradients.PROTOCOLS[order.mode], deadline, order.tell)
    results.claim(*figure2_claims(results), instead_of=RETIRED)
    shown = [*_panels(results, "seconds"), *_panels(results, "error")]
    save(panels(shown, columns=4, one_legend=True), results.folder / PICTURE)
    return done, of


def _run_table(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    protocol = images.PROTOCOLS[order.mode]
    done, of = run_table1(results, protocol, order.data, deadline, order.tell)
    models = ImageModels(results.folder, protocol, order.seed)
    results.claim(*table1_claims(models))
    draw_figure1(models, protocol, order.seed, order.data, results.folder)
    return done, of


def judge(results: Results) -> None:
    """Decides what the cells of the figure and the kept measures of images decide."""
    items = results.items()
    if any(item.startswith("Figure 2") for item in items):
        results.claim(*figure2_claims(results), instead_of=RETIRED)
    if any(item.startswith("Table 1") for item in items):
        results.claim(*table1_claims(ImageModels(results.folder, images.PROTOCOLS[results.mode], results.seed)))
    _arrange(results)


def _arrange(results: Results) -> None:
    """Claims of the figure before those of the table, whichever was run first; items stay where they are."""
    results.arrange(lambda item: 0, lambda claim: not claim.startswith("figure2-"))


def steps(order: StudyOrder) -> int:
    """How many rows and grids there are."""
    rows = count_steps(images.PROTOCOLS[order.mode], order.data) if _wants_table(order.parts) else 0
    return rows + (len(list(problems(gradients.PROTOCOLS[order.mode], 0))) if FIGURE in order.parts else 0)


def _wants_table(parts: tuple[str, ...]) -> bool:
    return any(part in TABLE for part in parts)


def page(results: Results) -> Page:
    """What stands around the numbers of the experiments there are."""
    items = results.items()
    introduction: list[str] = []
    changed: tuple[str, ...] = ()
    if any(item.startswith("Table 1") for item in items):
        introduction += table1_introduction(results)
        changed += IMAGES_CHANGED
    if any(item.startswith("Figure 2") for item in items):
        introduction += INTRODUCTION
        changed += GRADIENTS_CHANGED
    units = {item: _unit(item) for item in items}
    return Page(STUDY.title, introduction, CAPTIONS, units, QUESTION, [FIGURE1], changed)


def _unit(item: str) -> str:
    if item.startswith("Figure 2"):
        return "seconds of the processor, mean and standard error over seeds"
    over = "noisy copies of base images" if item.endswith(STANDING_IN) and FIELDS not in item else "images"
    return f"losses by the pixel, mean and standard error over {over}; rows are what was trained for"


def _panels(results: Results, what: str) -> list[Panel]:
    """One panel for each entropy and each quantity that varies."""
    found = []
    for against, label in (("size", "side of the grid"), ("strength", "interaction strength a")):
        for entropy in ENTROPIES:
            cells = list(results.of_item(item_name(entropy, against)))
            rows = ESTIMATORS if what == "error" else (INFERENCE, *ESTIMATORS)
            curves = [_line(row, [cell for cell in cells if cell.row == row], what) for row in rows]
            y_label = "seconds" if what == "seconds" else "relative error"
            base = 0 if against == "strength" else 2
            found.append(Panel(f"{entropy}, {against}", label, y_label, curves, log_x=base, log_y=True, ticks=True))
    return found


def _line(row: str, cells: list[Cell], what: str) -> Curve:
    places = [float(cell.column.split("x")[0]) for cell in cells]
    return Curve(row, places, [cell.ours if what == "seconds" else cell.more["error"] for cell in cells])


STUDY = Study(
    "domke",
    "Domke 2010, Implicit Differentiation by Perturbation",
    run,
    steps,
    page,
    parts=(*TABLE, FIGURE),
    usual=(FIGURE,),
    reads_data=_wants_table,
    side_by_side=False,
    judge=judge,
)
