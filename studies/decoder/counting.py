"""Counts over one chunk of shots, the same for all that decode them.

In: a :class:`ChunkJob`. Out: its counts as JSON: for each contender shots, failures and which they are, core-seconds.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.decoder import Code, Flips, Gaussian, Shots
from loopwise.demo.workers import one_thread
from loopwise.inference.families.second_stage import rank_of
from studies.decoder.codes import circuit, classical, gross_code, of_checks
from studies.decoder.contenders import Contender, of_circuit, of_gross, of_sionna, of_words
from studies.decoder.protocol import CIRCUIT, GROSS, SEED, SLOW, WORDS, ChunkJob, DecoderProtocol, Setting
from studies.harness.runs import write_run

Counted = dict[str, dict[str, float]]


def run_job(job: ChunkJob, protocol: DecoderProtocol, folder: Path, data: Path) -> None:
    """Counts a chunk and keeps it."""
    with one_thread():
        kind = job.setting.kind
        found = words_chunk(job, protocol, folder, data) if kind == WORDS else flips_chunk(job, protocol, folder, data)
    write_run(job.path(folder), found)


def flips_chunk(job: ChunkJob, protocol: DecoderProtocol, folder: Path, data: Path) -> dict[str, dict[str, Any]]:
    """Shots whose residual error a check or an observable sees; ``failed``: their numbers in the chunk."""
    code, sampler, contenders = _contenders(job.setting, protocol, folder, data)
    kind = [2, int(1000 * job.setting.level)] if job.setting.kind == GROSS else [3]
    shots: Shots = sampler.draw(job.shots, np.random.default_rng([SEED, *kind, job.number]))
    bits = np.ascontiguousarray(code.syndromes(shots.syndromes)[0])
    found = dict[str, dict[str, Any]]()
    for name, contender in contenders.items():
        if job.setting.kind == CIRCUIT and job.alone != (name if name in SLOW else ""):
            continue
        count = max(1, round(contender.share * len(bits)))
        begin = time.process_time()
        corrections = contender.corrects(bits[:count])
        seconds = time.process_time() - begin
        failed = np.flatnonzero(_failed(code, shots.take(slice(count)), bits[:count], corrections)).tolist()
        found[name] = {"shots": count, "failures": len(failed), "seconds": seconds, "failed": failed}
    return found


def _failed(code: Code, shots: Shots, bits: Any, corrections: Any) -> Any:
    if shots.errors is not None:
        return code.failures(shots.errors, corrections)
    return (code.flips(corrections) != shots.flips).any(1) | (code.checks.syndromes(corrections) != bits).any(1)


@cache
def _contenders(
    setting: Setting, protocol: DecoderProtocol, folder: Path, data: Path
) -> tuple[Code, Any, dict[str, Contender]]:
    if setting.kind == CIRCUIT:
        code, sampler = circuit(data, f"{setting.level:g}")
        found = of_circuit(of_checks(code))
    else:
        code = gross_code(setting.level)
        sampler, found = Flips(code), of_gross(code, folder, protocol)
    for contender in found.values():  # compiles what is compiled, before anything is timed
        contender.corrects(np.zeros((1, code.checks.count), np.uint8))
    return code, sampler, found


def words_chunk(job: ChunkJob, protocol: DecoderProtocol, folder: Path, data: Path) -> Counted:
    """Bits and words that are wrong."""
    channel, contenders = _words(job.setting, job.alone, protocol, folder, data)
    random = np.random.default_rng([SEED, 5, int(10 * job.setting.level), job.number])
    received = channel.draw(job.shots, random).log_odds
    assert received is not None
    found = Counted()
    for name, contender in contenders.items():
        count = max(1, round(contender.share * job.shots))
        begin = time.process_time()
        per_word = contender.corrects(received[:count]).sum(1).astype(float)
        seconds = time.process_time() - begin
        found[name] = {"shots": count, "failures": float((per_word > 0).sum()), "seconds": seconds}
        found[name] |= {"bits": float(per_word.sum()), "squares": float((per_word**2).sum())}
        found[name]["of bits"] = float(count * received.shape[1])
    return found


@cache
def _words(
    setting: Setting, alone: str, protocol: DecoderProtocol, folder: Path, data: Path
) -> tuple[Gaussian, dict[str, Contender]]:
    code = classical(data, setting.code)
    rate = 1 - rank_of(code.checks) / code.bits
    levels = next(levels for name, levels, _ in protocol.words if name == setting.code)
    path = folder / f"{setting.code}_{setting.sweeps}"
    made = (of_sionna if alone else of_words)(Gaussian(code, levels, rate), setting.sweeps, path, protocol.steps)
    return Gaussian(code, setting.level, rate), made
