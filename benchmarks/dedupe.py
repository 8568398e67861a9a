"""How fast duplicates are found, and how time and memory grow: generated records, from ten thousand to a million.

In: options. Out: a table, and a last line of JSON: ``records_per_second`` and ``peak_mb`` at the largest size,
``growth``, the exponent of time in records. Each size runs in a process of its own, so that peaks are its own. Results
are checked before they are timed: B-cubed F1 of the first 10,000 records' size must exceed .97.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from common import option_parser

SIZES, QUICK = (10_000, 100_000, 1_000_000), (1_000, 3_000, 10_000)
TRAINING = 2_000  # records that the model is trained on
LEAST = 0.97  # B-cubed F1


def one_size(size: int) -> dict[str, float]:
    """Trains on a small table, resolves a large one."""
    from loopwise.apps.dedupe import Dedupe, DedupeReport, made_records

    warnings.simplefilter("ignore")
    train, ids = made_records(TRAINING, seed=1)
    model = Dedupe(pairs_per_record=10).fit(train, ids=ids)
    model.predict(made_records(500, seed=2)[0])  # everything is compiled
    records, truth = made_records(size, seed=3)
    started = time.perf_counter()
    found = model.predict(records)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = DedupeReport.of(found.clusters, truth)
    return {
        "records": len(records),
        "seconds": seconds,
        "peak_mb": peak,
        "pairs": len(found.table.one),
        "b_cubed": report.b_cubed,
        "largest": found.largest(1)[0].size,
    }


def main() -> None:
    parser = option_parser(__doc__ or "")
    parser.add_argument("--size", type=int, default=None, help="one size, in this process")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size (default: %(default)s)")
    told = parser.parse_args()
    if told.size is not None:
        print(json.dumps(one_size(told.size)))
        return
    rows = []
    print(f"{'records':>9} {'seconds':>8} {'a second':>9} {'peak MB':>8} {'pairs':>10} {'B-cubed':>8} {'largest':>8}")
    for size in QUICK if told.quick else [size for size in SIZES if size <= told.most]:
        done = subprocess.run([sys.executable, __file__, "--size", str(size)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{size} records failed: {done.stderr.strip().splitlines()[-1:]}")
        row = json.loads(done.stdout.strip().splitlines()[-1])
        if row["b_cubed"] < LEAST:
            raise SystemExit(f"{size} records have a B-cubed F1 of {row['b_cubed']:.4f}, below {LEAST}")
        rows.append(row)
        print(
            f"{row['records']:9} {row['seconds']:8.1f} {row['records'] / row['seconds']:9.0f} {row['peak_mb']:8.0f} "
            f"{row['pairs']:10} {row['b_cubed']:8.4f} {row['largest']:8}",
            flush=True,
        )
    sizes, seconds = np.log([row["records"] for row in rows]), np.log([row["seconds"] for row in rows])
    last = rows[-1]
    told_last = {
        "benchmark": "dedupe",
        "records": last["records"],
        "records_per_second": round(last["records"] / last["seconds"], 1),
        "peak_mb": round(last["peak_mb"], 1),
        "growth": round(float(np.polyfit(sizes, seconds, 1)[0]), 3) if len(rows) > 1 else None,
        "b_cubed": round(last["b_cubed"], 4),
    }
    print(json.dumps(told_last))


if __name__ == "__main__":
    main()
