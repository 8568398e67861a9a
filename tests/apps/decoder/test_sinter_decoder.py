"""sinter collects statistics with it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest


def test_sinter_collects_with_it(stim) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("sinter", reason="needs sinter: pip install 'loopwise[decoder]'")
    from loopwise.apps.decoder.sinter_decoder import sinter_decoder

    circuit = stim.Circuit.generated(
        "repetition_code:memory", distance=3, rounds=2, before_round_data_depolarization=0.1
    )
    made = pickle.loads(pickle.dumps(sinter_decoder(sweeps=20)))
    compiled = made.compile_decoder_for_dem(dem=circuit.detector_error_model())
    events, flips = circuit.compile_detector_sampler(seed=1).sample(500, separate_observables=True, bit_packed=True)
    found = compiled.decode_shots_bit_packed(bit_packed_detection_event_data=events)
    assert found.shape == flips.shape and (found != flips).any(1).mean() < 0.15


def test_it_arrives_in_a_new_process(stim, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """sinter's workers are spawned: nothing was imported there before the decoder comes."""
    pytest.importorskip("sinter", reason="needs sinter: pip install 'loopwise[decoder]'")
    from loopwise.apps.decoder.sinter_decoder import sinter_decoder

    path = tmp_path / "decoder.pickle"
    path.write_bytes(pickle.dumps(sinter_decoder(sweeps=7)))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).options)"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'sweeps': 7}", done.stderr


def test_a_saved_decoder_has_its_own_options(tmp_path: Path) -> None:
    from loopwise.apps.decoder.sinter_decoder import sinter_decoder

    with pytest.raises(ValueError, match="sweeps: a decoder that is made or saved already has its own options"):
        sinter_decoder(tmp_path / "a.loopwise", sweeps=5)
