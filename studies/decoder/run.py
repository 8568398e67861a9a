"""The study: cells, what is trained for them, results and claims.

In: the data collection, a folder. Out: ``results.json`` (cells with published and own numbers, claims with their rules)
and ``counts.json``, from which the same command goes on. Peers that are not installed are left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from loopwise.apps.decoder import (
    OSD,
    Code,
    Decoder,
    Flips,
    Gaussian,
    Leg,
    MinSum,
    Shots,
    SumProduct,
    relay,
    search_legs,
)
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.losses import BitwiseCrossEntropy
from loopwise.apps.decoder.training import Trained
from loopwise.formats.files import atomic_write
from loopwise.inference.second_stage import rank_of
from studies.decoder.codes import circuit, classical, gross_code
from studies.decoder.work import Chunk, Ledger, rate_error, work

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SEED = 2026
FLIPS = (0.03, 0.05)
WORDS = {  # code: Eb/N0 in dB, sweeps
    "BCH_N63_K45": ((4.0, 5.0, 6.0), (10,)),
    "BCH_N63_K36": ((4.0, 5.0, 6.0), (5, 20)),
    "LDPC_N121_K60": ((3.0, 4.0, 5.0), (5, 20)),
    "POLAR_N64_K32": ((4.0, 5.0, 6.0), (5, 20)),
}
PUBLISHED_BCH = {"plain": 1.04e-3, "trained": 4.76e-4}  # bit error rates at 6 dB, Sionna's tutorial on weighted BP
RULES = {
    "gross": "no more failures than BP+OSD: the upper 95 % limit of the paired difference is at most 10 % of BP+OSD's",
    "bch": "bit errors at 6 dB, 10 sweeps: at most half of the published trained figure, upper 95 % limit",
    "circuit": "failures not above relay-BP's (upper 95 % limit of the paired difference at most 10 % of 40 in "
    "100,000) at no more than a quarter of its core-seconds on the same shots",
}


def peer(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


# --- The gross code, independent flips -------------------------------------------------------------------------------


def bp_osd(code: Code, scale: float) -> Decoder:
    return Decoder(code, rule=MinSum(scale), sweeps=1000, second=OSD(10), double=True)


def tuned_scale(code: Code, shots: int) -> float:
    """The scale with the fewest failures of BP+OSD on shots of their own."""
    held = Flips(code).draw(shots, np.random.default_rng([SEED, 1]))
    return min((0.6, 0.7, 0.8, 0.9, 1.0), key=lambda scale: bp_osd(code, scale).evaluate(held).errors)


def osd_answers(code: Code, scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """Corrections of BP+OSD: ldpc's where it is installed."""
    ldpc = peer("ldpc")
    if ldpc is None:
        return bp_osd(code, scale).decode_batch
    decoder = ldpc.BpOsdDecoder(
        code.checks.matrix.astype(np.uint8), error_channel=list(code.priors), max_iter=1000, bp_method="minimum_sum",
        ms_scaling_factor=scale, schedule="parallel", osd_method="osd_cs", osd_order=10,
    )  # fmt: skip
    return lambda syndromes: np.array([decoder.decode(row) for row in syndromes], dtype=np.uint8)


def gross_chunk(p: float, folder: Path, quick: bool, size: int) -> Chunk:
    """One chunk: the same shots for all contenders."""
    made: dict[str, Any] = {}

    def prepare() -> None:
        code = gross_code(p)
        path = folder / "gross.loopwise"
        if not path.exists():  # trained once, at the higher rate; the same numbers serve both
            noisy = gross_code(max(FLIPS))
            drawn, tried = (20_000, 15) if quick else (60_000, 40)
            options: dict[str, Any] = {"rule": SumProduct(), "layered": True, "solutions": 5}
            legs = search_legs(
                noisy,
                Flips(noisy),
                [15, 15, 15, 15],
                candidates=tried,
                shots=drawn,
                interval=(-0.45, 0.65),
                seed=SEED,
                **options,
            )
            Decoder(noisy, legs=legs, **options).save(path)
        scales = folder / "scales.json"
        known = json.loads(scales.read_text()) if scales.exists() else {}
        if str(p) not in known:
            known[str(p)] = tuned_scale(code, 10_000 if quick else 40_000)
            scales.write_text(json.dumps(known))
        made["code"], made["osd"] = code, osd_answers(code, known[str(p)])
        made["min-sum, 60 sweeps"] = Decoder(code, rule=MinSum(known[str(p)]), sweeps=60)
        made["random relay, 60 sweeps"] = Decoder(
            code,
            rule=SumProduct(),
            layered=True,
            solutions=5,
            legs=relay(code, 3, 15, interval=(-0.3, 0.5), seed=SEED),
        )
        made["trained legs, 60 sweeps"] = Decoder.load(path, code)

    def chunk(number: int) -> dict[str, float]:
        if not made:
            prepare()
        code = made["code"]
        shots = Flips(code).draw(size, np.random.default_rng([SEED, 2, int(1000 * p), number]))
        assert shots.errors is not None
        begin = time.process_time()
        theirs = code.failures(shots.errors, made["osd"](shots.syndromes))
        found = {"shots": float(size), "BP+OSD": float(theirs.sum()), "BP+OSD s": time.process_time() - begin}
        for name in [name for name in made if "sweeps" in name]:
            begin = time.process_time()
            answer = made[name].run(shots.syndromes)
            found[f"{name} s"] = time.process_time() - begin
            mine = code.failures(shots.errors, answer.corrections)
            assert int(answer.sweeps.max()) <= 60
            found[name] = float(mine.sum())
            found[f"{name} only"] = float((mine & ~theirs).sum())
            found[f"{name} not"] = float((theirs & ~mine).sum())
        return found

    return chunk


# --- The gross code, circuit noise -----------------------------------------------------------------------------------


def circuit_chunk(data: Path, size: int) -> Chunk:
    made: dict[str, Any] = {}

    def prepare() -> None:
        code, sampler = circuit(data, "0.003")
        made["code"], made["sampler"] = code, sampler
        made["min-sum, 80 sweeps"] = Decoder(code, rule=MinSum(0.9), sweeps=80)
        legs = relay(code, 300, 15, first_sweeps=40, first_memory=0.15, interval=(-0.226, 0.622), seed=SEED)
        made["layered relay, 40 + 300 x 15 sweeps"] = Decoder(
            code, rule=MinSum(1.0), layered=True, solutions=3, legs=legs
        )
        relay_bp = peer("relay_bp")
        if relay_bp is not None:
            made["relay"] = relay_bp.RelayDecoderF32(
                code.checks.matrix.astype(np.uint8), code.priors, alpha=1.0, gamma0=0.15, pre_iter=80, num_sets=300,
                set_max_iter=60, gamma_dist_interval=(-0.22628432386414646, 0.6216020925981884), stop_nconv=5,
            )  # fmt: skip

    def chunk(number: int) -> dict[str, float]:
        if not made:
            prepare()
        code = made["code"]
        shots: Shots = made["sampler"].draw(size, np.random.default_rng([SEED, 3, number]))
        found, failures = {"shots": float(size)}, {}
        for name in [name for name in made if "sweeps" in name]:
            begin = time.process_time()
            answer = made[name].run(shots.syndromes)
            found[f"{name} s"] = time.process_time() - begin
            failures[name] = failed(made[name], shots, answer)
        if "relay" in made:
            begin = time.process_time()
            bits = np.ascontiguousarray(code.syndromes(shots.syndromes)[0])
            corrections = np.asarray(made["relay"].decode_batch(bits), dtype=np.uint8)
            found["relay-BP s"] = time.process_time() - begin
            failures["relay-BP"] = (code.flips(corrections) != shots.flips).any(1)
        for name, wrong in failures.items():
            found[name] = float(wrong.sum())
            if "relay-BP" in failures:
                found[f"{name} only"] = float((wrong & ~failures["relay-BP"]).sum())
                found[f"{name} not"] = float((failures["relay-BP"] & ~wrong).sum())
        return found

    return chunk


# --- Classical codes, Gaussian noise ---------------------------------------------------------------------------------


def trained_words(code: Code, name: str, sweeps: int, layered: bool, quick: bool, rate: float) -> Decoder:
    """Weights of neural BP. Layered sweeps leave little to mend, and their gradient is noise but for that: fewer
    numbers, one for each check and sweep, in small steps."""
    ties = code.checks.edge_check if layered else None
    decoder = Decoder(code, rule=SumProduct(), layered=layered, legs=[Leg(code, sweeps, edge_ties=ties)])
    dev = Gaussian(code, WORDS[name][0][1], rate).draw(20_000, np.random.default_rng([SEED, 4]))
    return decoder.fit(
        Gaussian(code, WORDS[name][0], rate), BitwiseCrossEntropy(), trained=Trained(True, True, False, not layered),
        steps=150 if quick else 400, batch=512 if layered else 256, rate=0.004 if layered else 0.02,
        kept=range(max(1, sweeps // 2), sweeps + 1), dev=dev, report=50, seed=SEED, progress=False,
    )  # fmt: skip


def words_chunk(data: Path, folder: Path, name: str, sweeps: int, decibels: float, quick: bool, size: int) -> Chunk:
    made: dict[str, Any] = {}

    def prepare() -> None:
        code = classical(data, name)
        rate = 1 - rank_of(code.checks) / code.bits
        for layered in (False, True):
            first = "layered, " if layered else ""
            path = folder / f"{name}_{sweeps}{'_layered' if layered else ''}.loopwise"
            if not path.exists():
                trained_words(code, name, sweeps, layered, quick, rate).save(path)
            made[f"{first}plain"] = Decoder(code, rule=SumProduct(), sweeps=sweeps, layered=layered)
            made[f"{first}trained"] = Decoder.load(path)
        made["channel"] = Gaussian(code, decibels, rate)

    def chunk(number: int) -> dict[str, float]:
        if not made:
            prepare()
        shots = made["channel"].draw(size, np.random.default_rng([SEED, 5, int(10 * decibels), number]))
        found = {"words": float(size), "bits": float(size * shots.errors.shape[1])}
        for way in [way for way in made if way != "channel"]:
            wrong = made[way].receive(shots.log_odds).corrections
            per_word = wrong.sum(1).astype(float)
            found[way], found[f"{way} words"] = float(per_word.sum()), float((per_word > 0).sum())
            found[f"{way} squares"] = float((per_word**2).sum())
        return found

    return chunk


# --- Results ---------------------------------------------------------------------------------------------------------


def cells_of(options: argparse.Namespace) -> dict[str, tuple[Chunk, int]]:
    quick, folder, data = options.quick, options.out, options.data
    cells: dict[str, tuple[Chunk, int]] = {}
    for p in FLIPS:
        cells[f"gross {p}"] = gross_chunk(p, folder, quick, 5_000), 4 if quick else 80
    for name, (levels, all_sweeps) in WORDS.items():
        if quick and name != "BCH_N63_K45":
            continue
        for sweeps in all_sweeps:
            for decibels in levels[-1:] if quick else levels:
                made = words_chunk(data, folder, name, sweeps, decibels, quick, 50_000)
                cells[f"{name} {sweeps} {decibels}"] = made, 4 if quick else 40
    if not quick and peer("stim") is not None:
        cells["circuit 0.003"] = circuit_chunk(data, 512), 196
    return cells


def summarise(counts: dict[str, dict[str, float]], mode: str, seconds: float) -> dict[str, Any]:
    cells, claims = [], []

    def cell(item: str, row: str, column: str, published: float | None, ours: float, stderr: float, n: float) -> None:
        cells.append(
            {
                "item": item,
                "row": row,
                "column": column,
                "published": published,
                "ours": ours,
                "stderr": stderr,
                "n": int(n),
            }
        )

    for name, found in counts.items():
        kind = name.split(" ")[0]
        if kind in ("gross", "circuit"):
            shots = found["shots"]
            base = "BP+OSD" if kind == "gross" else "relay-BP"
            for row in [row for row in found if row == base or ("sweeps" in row and row.endswith("sweeps"))]:
                cell(name, row, "failures", None, found[row] / shots, rate_error(found[row], shots), shots)
                cell(name, row, "core ms a shot", None, 1e3 * found[f"{row} s"] / shots, 0.0, shots)
                if f"{row} only" not in found or row == base:
                    continue
                only, fewer = found[f"{row} only"], found[f"{row} not"]
                spread = 1.96 * math.sqrt(max(only + fewer - (only - fewer) ** 2 / shots, 1.0))
                upper = (only - fewer + spread) / shots
                margin = 0.1 * (found[base] / shots if kind == "gross" else 40 / 100_000)
                holds = upper <= margin
                if kind == "circuit":
                    holds = holds and found[f"{row} s"] <= 0.25 * found[f"{base} s"]
                evidence = f"{found[row]:.0f} against {found[base]:.0f} of {shots:.0f}; upper limit of the difference "
                evidence += f"{upper:.3g}, margin {margin:.3g}"
                claims.append({"id": f"{name}: {row}", "text": RULES[kind], "holds": holds, "evidence": evidence})
        else:
            words, bits = found["words"], found["bits"]
            for way in ("plain", "trained", "layered, plain", "layered, trained"):
                mean = found[way] / words
                spread = math.sqrt(max(found[f"{way} squares"] / words - mean**2, 1 / words) / words) * words / bits
                known = PUBLISHED_BCH[way.split(", ")[-1]] if name == "BCH_N63_K45 10 6.0" else None
                cell(name, way, "bit error rate", known, found[way] / bits, spread, words)
                wrong = found[f"{way} words"]
                cell(name, way, "word error rate", None, wrong / words, rate_error(wrong, words), words)
                if known is not None and "trained" in way:
                    upper, half = found[way] / bits + 1.96 * spread, PUBLISHED_BCH["trained"] / 2
                    text = f"{found[way] / bits:.3g}, upper limit {upper:.3g}, half of the published {half:.3g}"
                    claims.append(
                        {"id": f"{name}: {way}", "text": RULES["bch"], "holds": upper <= half, "evidence": text}
                    )
    return {"paper": "decoder", "mode": mode, "seed": SEED, "cells": cells, "claims": claims, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.decoder", description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="small counts, under 10 minutes")
    mode.add_argument("--full", action="store_true", help="all counts (the default); goes on where it stopped")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many, with what there is")
    parser.add_argument("--out", type=Path, default=Path("decoder_study"), help="folder of counts and results")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data collection")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    ledger = Ledger(options.out / "counts.json")
    for name in ("ldpc", "relay_bp", "stim"):
        if peer(name) is None:
            print(f"{name} is not installed: what needs it is left out, or done by this library's own")
    done = work(ledger, cells_of(options), begin + 60 * options.minutes)
    found = summarise(ledger.counts, "quick" if options.quick else "full", time.monotonic() - begin)
    with atomic_write(options.out / "results.json") as stream:
        stream.write(json.dumps(found, indent=1))
    for claim in found["claims"]:
        print(f"{'holds' if claim['holds'] else 'FAILS'}  {claim['id']}: {claim['evidence']}")
    print("complete" if done else "time is up; the same command goes on")
