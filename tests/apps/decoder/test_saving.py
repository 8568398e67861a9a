"""Decoders in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from loopwise.apps import Decoder
from loopwise.apps.decoder import OSD, Decimation, Flips, Leg, MinSum
from loopwise.formats.errors import FormatError
from oracles.codes import toric


def test_files(tmp_path: Path) -> None:
    code = toric()
    ties = code.checks.edge_check % 3
    legs = [
        Leg(code, 4, memory=0.1, edge_ties=ties),
        Leg(code, 6, memory=-0.2, resumes=False, order=np.arange(16)[::-1]),
    ]
    decoder = Decoder(code, rule=MinSum(0.8, 0.05), legs=legs, layered=True, solutions=2, second=OSD(3), budget=9)
    legs[0].open(edges=True, sweeps=True)
    with torch.no_grad():
        for param in legs[0].parameters():
            param.add_(0.01 * torch.randn(param.shape))
    decoder.save(tmp_path / "a")
    same = Decoder.load(tmp_path / "a")
    shots = Flips(code).draw(300, np.random.default_rng(0))
    np.testing.assert_array_equal(same.decode_batch(shots.syndromes), decoder.decode_batch(shots.syndromes))
    assert repr(same) == repr(decoder) and same.second == OSD(3)
    same.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    decoder.second = Decimation(7, 0.1, 5)
    decoder.save(tmp_path / "d")
    assert Decoder.load(tmp_path / "d").second == Decimation(7, 0.1, 5)
    mild = Decoder.load(tmp_path / "a", code.with_priors(0.02))
    assert mild.code.priors[0] == 0.02
    with pytest.raises(FormatError, match="the decoder in the file is for another code: 16 x 32, 64 edges"):
        Decoder.load(tmp_path / "a", toric(3))
    (tmp_path / "c").write_bytes((tmp_path / "a").read_bytes()[:-7])
    with pytest.raises(FormatError, match="the file is cut off"):
        Decoder.load(tmp_path / "c")
