"""The study of decoders: the gross code under two kinds of noise, and classical codes, beside what users have today.

In: an order. Out: results, pictures; counts of chunks beside them. Peers that are not installed are left out, and the
page says so.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save
from studies.decoder.claims import claims
from studies.decoder.contenders import peer
from studies.decoder.counting import Counted, run_job
from studies.decoder.protocol import (
    BP_OSD,
    CIRCUIT,
    PROTOCOLS,
    RELAY,
    SEED,
    SIONNA,
    WORDS,
    ChunkJob,
    Setting,
    jobs,
)
from studies.decoder.tables import bit_error, cells, rate_error, totals
from studies.harness.page import Page
from studies.harness.queue import run_jobs
from studies.harness.results import Deadline, Results
from studies.harness.runs import check_runs
from studies.harness.study import Study, StudyOrder, unfinished

PEERS = ("ldpc", "relay_bp", "stim", "sionna")
PICTURES = {
    "quantum.png": "Failures against core time a shot, for each decoder of the gross code; lower and further left is "
    "better. Bars are standard errors.",
    "classical.png": "Bit error rates of classical codes against the signal-to-noise ratio.",
}
QUESTION = (
    "Decoders of error-correcting codes are the largest living use of belief propagation that is cut short. How far do "
    "few sweeps get when their numbers are chosen for the failures that count, beside what users have today?"
)
INTRODUCTION = (
    "The gross code is [[144,12,12]]. Independent flips: BP+OSD is the min-sum with the best of five scales at p = "
    ".04, 1,000 iterations, osd_cs of order 10 (ldpc's where it is installed). The others make at most 60 sweeps over "
    "all legs, whatever the shot, and have no OSD: the min-sum as it is; four legs of 15 layered sum-product sweeps "
    "with memory drawn at random; and legs picked from a pool of 100 for the shots that the others fail at "
    "(`pick_legs`, at p = .04, on shots of its own), which serve both rates. Of these the first makes at most 14 "
    "sweeps, eight more at most 12, and all together at most 60: a leg that explains a shot sooner leaves more to "
    "those after it. Each takes the checks in an order of its own. A solution of fewer than six flips, half the "
    "distance, ends the search; else the likeliest is taken.",
    "Circuit noise: p = .003, memory Z, its Z detectors, 936 checks and 8,784 mechanisms. relay-BP has its published "
    "settings: 80 sweeps, then up to 300 legs of 60, the likeliest of five solutions. Ours has the same, with other "
    "strengths drawn, and is judged by the claim (until 2026-11-18 layered relay was: of 16,384 shots of a seed of "
    "their own it failed at 18, 12 of which relay-BP decodes). Layered relay (40 sweeps, then up to 300 legs of 25, "
    "three solutions) takes less than half of its time, and misses some shots that it decodes. All decode a chunk "
    "before the next one is begun, and pairs are of the shots that both decoded. BP+OSD is the min-sum with scale .9, "
    "1,000 iterations, osd_cs of order 10 (ldpc's), and is given the first twentieth of each chunk.",
    "Classical codes: sum-product. Trained: weights of edges and sweeps, with or without memory and priors of bits, "
    "for soft bit errors after the later half of the sweeps, at two rates of steps, on words near failure (those that "
    "a quarter of the sweeps does not decode), as many of each ratio. Of these and the plain ones what has the fewest "
    "wrong bits on other such words; a trained one only if it has fewer than the plain one by more than chance, pair "
    "by pair. Sionna's weighted BP has the same rates, steps and held-out words.",
    "Core-seconds are of a machine that was doing other work. Intervals are 95 %: Wilson's of failures, normal ones "
    "of bit errors, by words.",
    "What training does not mend: a shot whose likeliest correction is the wrong one. On the gross code at p = .05 "
    "gradients made legs explain a third of the shots that were left unexplained, and as many failed as before: the "
    "first solution is often wrong, the likeliest of several is so less often, and 60 sweeps allow few. In "
    "exploration at p = .04 on other shots, 60 legs of 16 sweeps each (960 in all) failed at 763 where 60 sweeps of "
    "the best of them failed at 978, and taking the likeliest class of solutions in place of the likeliest solution "
    "spared 1 to 2 % more. Flooding sweeps of BCH(63,45): weights of every kind there is here came to 3.4e-4 wrong "
    "bits at 6 dB in 1,000 steps, where layered sweeps have 2e-4 without any training. "
    "Training is judged over all ratios together; at one alone it may lose: layered, 20 sweeps, 6 dB, BCH(63,36) and "
    "the polar code.",
)


def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
    """Chunk after chunk, one at a time: they are timed."""
    protocol, runs = PROTOCOLS[order.mode], order.runs_folder
    check_runs(runs, {"protocol": asdict(protocol), "seed": SEED}, keep=order.keep)
    if order.data is None:
        raise ValueError("the study of decoders reads codes from the data collection; give --data FOLDER")
    todo = [job for job in jobs(protocol) if all(peer(name) is not None for name in needs(job))]
    one = partial(run_job, protocol=protocol, folder=runs, data=order.data)
    done = run_jobs(todo, runs, one, deadline, order.tell)
    counted = totals(runs, protocol)
    results.put_items(results.items(), cells(counted))
    results.claim(*claims(counted))
    draw(counted, results.folder)
    missing = [name for name in PEERS if peer(name) is None]
    slow = {job.alone: f"{job.alone} ({job.setting.kind})" for job in todo if job.alone}
    waiting = [slow[name] for name in slow if not any(j.path(runs).exists() for j in todo if j.alone == name)]
    results.note(
        *unfinished(done, len(todo), "chunks"),
        *([f"Not counted yet: {', '.join(waiting)}."] if waiting else []),
        *([f"Not installed, and left out or done by this library: {', '.join(missing)}."] if missing else []),
    )
    return done, len(todo)


def needs(job: ChunkJob) -> list[str]:
    """The other libraries that a job cannot be done without."""
    alone = {RELAY: "relay_bp", BP_OSD: "ldpc", SIONNA: "sionna"}
    return [*(["stim"] if job.setting.kind == CIRCUIT else []), *([alone[job.alone]] if job.alone else [])]


def steps(order: StudyOrder) -> int:
    """How many chunks there are in all."""
    return len(jobs(PROTOCOLS[order.mode]))


def page(results: Results) -> Page:
    """What stands around the numbers."""
    units = {item: _shots(results, item) for item in results.items()}
    return Page(STUDY.title, INTRODUCTION, PICTURES, units, QUESTION)


def _shots(results: Results, item: str) -> str:
    """How many each decoded."""
    counts = {cell.row: cell.n for cell in results.of_item(item)}
    if len(set(counts.values())) == 1:
        return f"± standard error; the same {next(iter(counts.values())):,} shots for all"
    each = ", ".join(f"{row} {count:,}" for row, count in counts.items())
    return f"± standard error; shots, each the first of the same ones of a chunk: {each}"


def draw(counted: dict[Setting, Counted], folder: Path) -> None:
    """Both pictures, of what there is."""
    flips = [_quantum(setting, rows) for setting, rows in counted.items() if setting.kind != WORDS]
    if flips:
        save(panels(flips), folder / "quantum.png")
    codes = dict.fromkeys((setting.code, setting.sweeps) for setting in counted if setting.kind == WORDS)
    words = [_classical(counted, code, sweeps) for code, sweeps in codes]
    if words:
        save(panels(words, columns=min(3, len(words)), one_legend=True), folder / "classical.png")


def _quantum(setting: Setting, rows: Counted) -> Panel:
    curves = []
    for name, counts in rows.items():
        shots = counts["shots"]
        rate, error = counts["failures"] / shots, rate_error(counts["failures"], shots)
        curves.append(Curve(name, [1e3 * counts["seconds"] / shots], [rate], [error]))
    return Panel(setting.name, "core ms a shot", "failures a shot", curves, log_y=True)


def _classical(counted: dict[Setting, Counted], code: str, sweeps: int) -> Panel:
    found: dict[str, list[tuple[float, float, float]]] = {}
    for setting, rows in counted.items():
        if (setting.code, setting.sweeps) == (code, sweeps):
            for name, counts in rows.items():
                found.setdefault(name, []).append(
                    (setting.level, counts["bits"] / counts["of bits"], bit_error(counts))
                )
    curves = []
    for name, points in found.items():
        x, y, errors = (list(column) for column in zip(*points, strict=True))
        curves.append(Curve(name, x, y, errors, dashed="trained" not in name))
    return Panel(f"{code}, {sweeps} sweeps", "Eb/N0 in dB", "bit error rate", curves, log_x=0, log_y=True, ticks=True)


STUDY = Study(
    "decoder",
    "Decoders: trained message passing beside what users have today",
    run,
    steps,
    page,
    reads_data=lambda parts: True,
    side_by_side=False,
)
