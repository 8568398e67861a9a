"""Codes from stim's circuits; tests that need stim or sinter skip without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder.circuits import CircuitShots, code_of_circuit, code_of_model, stim_module
from loopwise.formats.errors import FormatError


def test_without_stim_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "stim", None)
    with pytest.raises(ValueError, match="circuits need stim, which is not installed; pip install"):
        stim_module()


def test_mechanisms_that_flip_the_same_are_one_bit(stim) -> None:  # type: ignore[no-untyped-def]
    model = stim.DetectorErrorModel(
        "error(0.1) D0 L0\nerror(0.2) D0 D1\nerror(0.3) D0 ^ D1\nerror(0.1) D1 L0 D0 D0\nerror(0) D0\ndetector D3"
    )
    code = code_of_model(model)
    assert (code.bits, code.checks.count, code.detector_count, code.silent.tolist()) == (3, 2, 4, [2, 3])
    assert sorted(code.priors.round(6).tolist()) == [0.1, 0.1, round(0.2 + 0.3 - 2 * 0.06, 6)]
    decoder = Decoder(code, sweeps=5)
    assert decoder.run([[1, 0, 0, 0]]).flips.tolist() == [[1]]
    assert decoder.run([[1, 0, 1, 0]]).explained.tolist() == [False]


def test_a_circuit_in_a_logical_rate_out(stim, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    circuit = stim.Circuit.generated(
        "repetition_code:memory", distance=5, rounds=3, before_round_data_depolarization=0.05
    )
    circuit.to_file(tmp_path / "a.stim")
    decoder = Decoder.from_circuit(tmp_path / "a.stim", sweeps=30)
    assert decoder.code.fingerprint == Decoder.from_model(circuit.detector_error_model()).code.fingerprint
    counts = decoder.evaluate(CircuitShots(circuit), 4000)
    assert counts.rate < 0.03 and counts.shots == 4000
    half = code_of_circuit(circuit, detectors=np.arange(8))
    assert half.checks.count == 8 and half.detector_count == circuit.num_detectors
    decoder.fit(CircuitShots(circuit), steps=6, report=3, dev=300, progress=False)


def test_bad_circuits_get_one_sentence(stim, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="the circuit has no detectors, so there is no syndrome to decode"):
        code_of_circuit(stim.Circuit("X_ERROR(0.1) 0\nM 0"))
    with pytest.raises(ValueError, match="has no error that a detector sees"):
        code_of_circuit(stim.Circuit("M 0\nDETECTOR rec[-1]"))
    with pytest.raises(ValueError, match=r"stim finds no .*: The circuit contains non-deterministic detectors.$"):
        code_of_circuit(stim.Circuit("H 0\nX_ERROR(0.1) 0\nM 0\nDETECTOR rec[-1]"))
    (tmp_path / "a.stim").write_text("NONSENSE 3\n")
    with pytest.raises(FormatError, match="this is no circuit of stim"):
        code_of_circuit(tmp_path / "a.stim")
    (tmp_path / "b.stim").write_text("X_ERROR(0.1) 0\nM 0\n")
    with pytest.raises(FormatError, match=r"b\.stim: the circuit has no detectors, so there is no syndrome to decode"):
        code_of_circuit(tmp_path / "b.stim")
    (tmp_path / "b.dem").write_text("error(0.1) L0\n")
    with pytest.raises(FormatError, match=r"b\.dem: the detector error model has no detectors"):
        code_of_model(tmp_path / "b.dem")
    with pytest.raises(ValueError, match="or the path of one, is wanted, not int"):
        code_of_circuit(3)
    with pytest.raises(ValueError, match="detectors must be whole numbers from 0 to 0"):
        code_of_circuit(stim.Circuit("X_ERROR(0.1) 0\nM 0\nDETECTOR rec[-1]"), detectors=[4])
