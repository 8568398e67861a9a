"""Tables: rows with missing cells against complete ones, in training and in use; checked against BP first.

Rows of a made-up table (``--columns`` columns of 4 values along a chain, a class of 3) train a ``lw.apps.Table``
as they are and with 30 % of the cells missing. Ends with one line of JSON: ``ragged_over_complete`` (training),
``ragged_over_complete_predict``, ``rows_per_second`` (predicted, 30 % missing), ``row_ms`` (one row), ``seconds``.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

import loopwise as lw
from common import option_parser
from loopwise.apps import Table

FEW = 20  # rows that are compared with BP on each row's own graph


def made(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A class, and a chain of columns each of which mostly follows the one before or the class."""
    rng = np.random.default_rng(seed)
    answer = rng.integers(0, 3, rows)
    values = rng.integers(0, 4, (rows, columns))
    for place in range(columns):
        source = values[:, place - 1] if place % 3 else answer
        values[:, place] = np.where(rng.random(rows) < 0.5, source, values[:, place])
    return values.astype(float), answer


def with_holes(values: np.ndarray, seed: int, rate: float = 0.3) -> np.ndarray:
    found = values.copy()
    found[np.random.default_rng(seed).random(values.shape) < rate] = np.nan
    return found


def seconds(call: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def check(model: Table, rows: np.ndarray) -> None:
    """Beliefs are those of BP on each row's own graph."""
    method, tables = model.system_.inference, model.system_.potentials()
    codes = model._known(rows)[1]
    for values, shares in zip(codes, model.predict_proba(rows), strict=True):
        states = method(model.system_.graph, tables, values).states.detach().numpy()
        assert np.allclose(states[-len(shares) :], shares, atol=1e-10), "rows of evidence differ from BP"


def main() -> None:
    parser = option_parser(__doc__ or "")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rows, columns = (400, 10) if options.quick else (options.rows, options.columns)
    values, answer = made(rows, columns, 0)
    holes = with_holes(values, 1)
    Table().fit(values[:40], answer[:40], progress=False)  # compiles
    complete, _ = seconds(lambda: Table(threads=options.threads).fit(values, answer, progress=False))
    ragged, model = seconds(lambda: Table(threads=options.threads).fit(holes, answer, progress=False))
    check(model, holes[:FEW])
    whole, _ = seconds(lambda: model.predict_proba(values))
    broken, _ = seconds(lambda: model.predict_proba(holes))
    one = min(seconds(lambda: model.predict(holes[:1]))[0] for _ in range(200))
    print(
        f"{rows} rows, {columns} columns: complete {complete:.1f} s, 30 % missing {ragged:.1f} s; lw {lw.__version__}"
    )
    report = {
        "ragged_over_complete": ragged / complete,
        "ragged_over_complete_predict": broken / whole,
        "rows_per_second": rows / broken,
        "row_ms": 1e3 * one,
        "seconds": ragged,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
