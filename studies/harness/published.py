"""What the papers print, as data.

In: the name of a paper's folder. Out: the tables of its ``published.toml``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomllib

STUDIES = Path(__file__).resolve().parents[1]


def published(paper: str) -> dict[str, Any]:
    """The numbers of a paper, as printed.

    >>> published("erma")["table3"]["MSE"]["MSE-in"]
    {'loss': 0.00057, 'record': '12-0-0'}
    """
    with (STUDIES / paper / "published.toml").open("rb") as stream:
        return tomllib.load(stream)
