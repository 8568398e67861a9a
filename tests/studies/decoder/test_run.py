"""The study of decoders: its counts, rules by hand, and the whole of it in miniature."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from studies.decoder import contenders, run
from studies.decoder.claims import claims, upper_limit
from studies.decoder.contenders import PICKED, SAME
from studies.decoder.counting import run_job
from studies.decoder.protocol import (
    BP_OSD,
    CIRCUIT,
    GROSS,
    PROTOCOLS,
    RELAY,
    SIONNA,
    WORDS,
    DecoderProtocol,
    Setting,
    jobs,
    settings,
)
from studies.decoder.tables import bit_error, totals
from studies.harness.results import FULL, QUICK
from studies.harness.runs import write_run
from studies.harness.study import StudyOrder, reproduce

TINY = DecoderProtocol(((0.03, 1), (0.05, 1)), 1, 0, (("BCH_N31_K16", (4.0,), (3,)),), 2, 200, 100, 5)


def test_jobs_take_turns_and_have_files_of_their_own(tmp_path: Path) -> None:
    todo = jobs(PROTOCOLS[FULL])
    assert len({job.path(tmp_path) for job in todo}) == len(todo)
    turns = [setting for setting in settings(PROTOCOLS[FULL]) if setting.kind != CIRCUIT]
    assert [job.setting for job in todo[: len(turns)]] == turns


def test_slow_decoders_come_by_themselves_and_circuit_noise_chunk_by_chunk() -> None:
    """Wherever time is cut, all have decoded the same chunks."""
    todo = jobs(PROTOCOLS[FULL])
    circuit = [job for job in todo if job.setting.kind == CIRCUIT]
    names = [(0, ""), (0, RELAY), (0, BP_OSD), (1, ""), (1, RELAY), (1, BP_OSD)]
    assert [(job.number, job.alone) for job in circuit[:6]] == names
    last = [job for job in todo if job.alone == SIONNA]
    assert todo[-len(last) :] == last
    assert todo[-len(last) - len(circuit) : -len(last)] == circuit
    assert all(run.needs(job) == ["sionna"] for job in last if job.alone == SIONNA)
    assert run.needs(circuit[1]) == ["stim", "relay_bp"] and not run.needs(todo[0])


def test_pairs_are_of_shots_that_both_decoded(tmp_path: Path) -> None:
    """Ours decoded four shots a chunk in two chunks, relay-BP three of one."""
    protocol = DecoderProtocol((), 0, 2, (), 1, 1, 1, 1)
    ours = {"shots": 4, "failures": 3, "seconds": 1.0, "failed": [0, 1, 3]}
    relay = {"shots": 3, "failures": 2, "seconds": 9.0, "failed": [1, 2]}
    for job in jobs(protocol):
        if not job.alone:
            write_run(job.path(tmp_path), {SAME: ours})
        elif job.alone == RELAY and job.number == 1:
            write_run(job.path(tmp_path), {RELAY: relay})
    (rows,) = totals(tmp_path, protocol).values()
    assert rows[SAME] == {"shots": 8, "failures": 6, "seconds": 2.0, "paired": 3, "only": 1, "not": 1}
    assert rows[RELAY] == {"shots": 3, "failures": 2, "seconds": 9.0, "paired": 3, "only": 0, "not": 0}
    found = {claim.id: claim for claim in claims({Setting(CIRCUIT, "gross", 0.003): rows})}
    assert found["circuit"].holds is False and "on the 3 that both decoded" in found["circuit"].evidence


def test_circuit_noise_is_decoded_by_all(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stim", reason="needs stim: pip install 'loopwise[decoder]'")
    monkeypatch.setattr("studies.decoder.protocol.CIRCUIT_SHOTS", 40)
    protocol = DecoderProtocol((), 0, 1, (), 1, 1, 1, 1)
    for job in jobs(protocol):
        if job.alone != BP_OSD:
            run_job(job, protocol, tmp_path, shared_data)
    (rows,) = totals(tmp_path, protocol).values()
    assert rows[SAME]["failures"] <= rows["min-sum"]["failures"] < 40
    assert all(counts["shots"] == 40 for counts in rows.values())


def test_the_limit_of_a_paired_difference() -> None:
    mine = {"shots": 1000.0, "failures": 30.0, "paired": 1000.0, "only": 12.0, "not": 8.0}
    spread = math.sqrt(20 - 16 / 1000)
    assert upper_limit(mine) == pytest.approx((4 + 1.96 * spread) / 1000)


def counted(only: float, fewer: float) -> dict[Setting, Any]:
    mine = {"shots": 1e6, "paired": 1e6, "failures": 1000 + only - fewer, "seconds": 1.0, "only": only, "not": fewer}
    theirs = {"shots": 1e6, "paired": 1e6, "failures": 1000.0, "seconds": 9.0, "only": 0.0, "not": 0.0}
    return {Setting(GROSS, "gross", 0.03): {BP_OSD: theirs, PICKED: mine}}


@pytest.mark.parametrize(("only", "fewer", "holds"), [(100, 100, True), (150, 50, False), (400, 300, False)])
def test_no_more_failures_than_the_other(only: float, fewer: float, holds: bool) -> None:
    found = {claim.id: claim for claim in claims(counted(only, fewer))}
    assert found["gross-0.03"].holds is holds
    assert found["gross-0.05"].holds is None and found["circuit"].holds is None


def test_errors_of_bits_go_by_words() -> None:
    counts = {"shots": 100.0, "bits": 50.0, "squares": 500.0, "of bits": 1000.0}  # five words with ten wrong bits each
    assert bit_error(counts) == pytest.approx(math.sqrt((5 - 0.25) / 100) * 100 / 1000)


def test_the_whole_in_miniature(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    monkeypatch.setattr(contenders, "SCALES", (0.8,))
    monkeypatch.setattr("studies.decoder.protocol.GROSS_SHOTS", 300)
    monkeypatch.setattr("studies.decoder.protocol.WORD_SHOTS", 300)
    order = StudyOrder(tmp_path, data=shared_data)
    results, complete = reproduce(run.STUDY, order)
    assert complete and json.loads((tmp_path / "results.json").read_text())["paper"] == "decoder"
    assert "the same 300 shots for all" in (tmp_path / "index.md").read_text()
    assert (tmp_path / "quantum.png").exists() and (tmp_path / "classical.png").exists()
    found = totals(order.runs_folder, TINY)
    for setting, rows in found.items():
        assert all(counts["shots"] == 300 for counts in rows.values())
        if setting.kind == WORDS:
            assert rows["plain"]["bits"] > 0
        else:
            assert rows[BP_OSD]["only"] == rows[BP_OSD]["not"] == 0
            apart = rows[PICKED]["only"] - rows[PICKED]["not"]
            assert apart == rows[PICKED]["failures"] - rows[BP_OSD]["failures"]
    again, _ = reproduce(run.STUDY, order)  # nothing is left to run
    assert [cell.ours for cell in again.cells] == [cell.ours for cell in results.cells]
