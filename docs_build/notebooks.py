"""A hook of MkDocs: the scripts of examples/notebooks as .ipynb files, to be opened in Jupyter.

In: scripts in jupytext's percent format. Out: ``notebooks/NAME.ipynb`` beside the pages, without outputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
CELL = "# %%"


def cells(text: str) -> Iterator[tuple[str, str]]:
    """The kind (``"code"`` or ``"markdown"``) and the source of each cell of a script."""
    for part in text.split(f"\n{CELL}"):
        head, _, body = part.removeprefix(CELL).partition("\n")
        if "[markdown]" in head:
            yield "markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
        else:
            yield "code", body.strip()


def notebook(text: str) -> dict[str, Any]:
    """A script as a notebook of format 4."""
    made = []
    for number, (kind, source) in enumerate(cells(text)):
        cell: dict[str, Any] = {"id": f"cell-{number}", "cell_type": kind, "metadata": {}, "source": source}
        made.append(cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def on_post_build(config: Any) -> None:
    folder = Path(config.site_dir) / "notebooks"
    folder.mkdir(exist_ok=True)
    for script in sorted(SCRIPTS.glob("*.py")):
        (folder / f"{script.stem}.ipynb").write_text(json.dumps(notebook(script.read_text()), indent=1) + "\n")
