"""Tables 4 and 5 as one picture: how training for the loss and likelihood training bear mismatch and few sweeps.

In: results. Out: a PNG file. Dashed lines are the published numbers.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from loopwise.plot.style import BLUE, ORANGE, new_grid, plain, save
from studies.erma.protocol import BEST, LOGL
from studies.erma.tables import row_name
from studies.harness.results import Cell, Results

PICTURE = "tables.png"
CAPTION = "Differences of loss to the true model against structure mismatch (above) and sweeps of BP (below)."
LOSSES = ("MSE", "F", "L1")


def draw_tables(results: Results, path: Path) -> bool:
    """Draws what there is; whether there is anything."""
    items = [item for item in ("Table 4", "Table 5") if any(True for _ in results.of_item(item))]
    if not items:
        return False
    panels = new_grid(len(items), len(LOSSES), 11.0, 3.2 * len(items))
    for row, item in zip(panels, items, strict=True):
        for axes, test in zip(row, LOSSES, strict=True):
            _panel(axes, results, item, test)
    save(panels, path)
    return True


def _panel(axes: Axes, results: Results, item: str, test: str) -> None:
    plain(axes)
    for train, colour in ((LOGL.name, ORANGE), (BEST[test].name, BLUE)):
        cells = _cells(results, item, row_name(test, train))
        columns = [cell.column for cell in cells]
        places = range(len(cells))
        if item == "Table 4" and (ideal := results.find("Table 3", row_name(test, train), "Δ loss")) is not None:
            cells, columns, places = [ideal, *cells], ["0%", *columns], range(len(cells) + 1)
        errors = [cell.stderr or 0.0 for cell in cells]
        ours = [float("nan") if cell.ours is None else cell.ours for cell in cells]
        axes.errorbar(places, ours, yerr=errors, color=colour, marker="o", capsize=2, linewidth=1.4, label=train)
        published = [float("nan") if cell.published is None else cell.published for cell in cells]
        axes.plot(places, published, "--", color=colour, linewidth=1, marker=".")
        axes.set_xticks(list(places), columns)
    axes.axhline(0.0, color="#999999", linewidth=0.8)
    axes.set_title(test, loc="left", fontsize=10)
    axes.set_xlabel("wrong edges" if item == "Table 4" else "sweeps of BP")
    axes.set_ylabel("Δ loss (dashed: published)")
    axes.legend(frameon=False, fontsize=8)


def _cells(results: Results, item: str, row: str) -> list[Cell]:
    return [cell for cell in results.of_item(item) if cell.row == row]
