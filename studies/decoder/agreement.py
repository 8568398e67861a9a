"""Whether decisions are ldpc's: both rules, parallel schedule, after 1, 2, 5 and 20 sweeps, on several codes.

``python -m studies.decoder.agreement --shots 100000``: so many syndromes over all codes. Of the min-sum all shots are
compared, ties among them. Of the product-sum those are set aside where ldpc's log-odds are infinite (its products
saturate), or so near 0 that rounding decides; how many is told. Ends with a line of JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.decoder import Code, Decoder, Flips, MinSum, SumProduct
from studies.decoder.codes import classical, gross_code
from studies.decoder.contenders import peer
from studies.decoder.protocol import SEED

DATA = Path("../shared/data")

NEAR = 1e-6  # log-odds that rounding may turn, and differences that it may make


def compare(code: Code, syndromes: np.ndarray, rule: Any, sweeps: int) -> dict[str, float]:
    """Shots compared and set aside, decisions that differ, the largest difference of log-odds relative to them."""
    theirs = peer("ldpc").BpDecoder(
        code.checks.matrix.astype(np.uint8), error_channel=list(code.priors), max_iter=sweeps, schedule="parallel",
        bp_method="product_sum" if isinstance(rule, SumProduct) else "minimum_sum",
        ms_scaling_factor=rule.scale if isinstance(rule, MinSum) else 1.0,
    )  # fmt: skip
    answer = Decoder(code, rule=rule, sweeps=sweeps, double=True).run(syndromes, soft=True)
    found = {"compared": 0, "aside": 0, "different": 0, "largest": 0.0}
    for row, syndrome in enumerate(syndromes):
        hard = theirs.decode(syndrome)
        odds = np.array(theirs.log_prob_ratios)
        if isinstance(rule, SumProduct) and (not np.isfinite(odds).all() or np.abs(odds).min() < NEAR):
            found["aside"] += 1
            continue
        found["compared"] += 1
        same = (hard == answer.corrections[row]).all() and bool(theirs.converge) == bool(answer.explained[row])
        found["different"] += not same
        size = np.abs(answer.log_odds[row] - odds) / np.maximum(1.0, np.abs(odds))
        found["largest"] = max(found["largest"], float(size.max()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.decoder.agreement", description=__doc__)
    parser.add_argument("--shots", type=int, default=100_000)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    codes = {"gross 0.05": gross_code(0.05), "gross 0.03": gross_code(0.03)}
    for name, p in (("LDPC_N121_K60", 0.05), ("MACKAY_N96_K48", 0.06), ("BCH_N63_K45", 0.03)):
        codes[name] = classical(options.data, name).with_priors(p)
    total: dict[str, float] = {"compared": 0, "aside": 0, "different": 0, "largest": 0.0}
    for name, code in codes.items():
        shots = Flips(code).draw(options.shots // len(codes), np.random.default_rng([SEED, 6])).syndromes
        shots = shots[shots.any(1)]  # ldpc leaves its numbers as they are where nothing is wrong
        for rule in (SumProduct(), MinSum(0.8), MinSum()):
            for sweeps in (1, 2, 5, 20):
                found = compare(code, shots, rule, sweeps)
                print(f"{name}, {rule}, {sweeps} sweeps: {found}", flush=True)
                for key, value in found.items():
                    total[key] = max(total[key], value) if key == "largest" else total[key] + value
    print(json.dumps(total))


if __name__ == "__main__":
    main()
