"""Training for failures: fewer of them, losses that are right, going on after a stop, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from loopwise.apps import Decoder
from loopwise.apps.decoder import Code, Flips, Gaussian, Leg, MinSum, Shots, SumProduct
from loopwise.apps.decoder.losses import BitwiseCrossEntropy, BlockError
from loopwise.apps.decoder.training import Trained
from loopwise.formats.errors import FormatError
from loopwise.learn.files import ledger
from oracles.codes import HAMMING, toric


def test_training_halves_the_failures_of_ten_sweeps() -> None:
    code = toric()
    held = Flips(code).draw(4000, np.random.default_rng(9))
    decoder = Decoder(code, rule=SumProduct(), sweeps=10)
    before = decoder.evaluate(held)
    decoder.fit(Flips(code, 0.06), steps=120, rate=0.03, dev=1000, report=40, progress=False)
    after = decoder.evaluate(held)
    assert after.errors < 0.6 * before.errors
    assert len(decoder.history_) == 4 and decoder.history_[-1].loss < decoder.history_[1].loss
    other = Decoder(code.with_priors(0.03), rule=SumProduct(), legs=decoder.legs)  # carries to another p
    mild = Flips(code, 0.03).draw(4000, np.random.default_rng(8))
    assert other.evaluate(mild).errors < 0.7 * Decoder(other.code, rule=SumProduct(), sweeps=10).evaluate(mild).errors


def test_later_legs_are_trained_on_what_is_left() -> None:
    code = toric(p=0.08)
    held = Flips(code).draw(2000, np.random.default_rng(9))
    legs = [Leg(code, 8), Leg(code, 8, memory=0.0)]
    decoder = Decoder(code, rule=MinSum(0.8), legs=legs)
    before = decoder.evaluate(held)
    options = {"steps": 40, "dev": 1000, "report": 20, "progress": False, "rate": 0.03}
    decoder.fit(Flips(code), leg=0, hard=0.5, **options)
    decoder.fit(Flips(code), leg=1, **options)
    assert decoder.evaluate(held).errors < before.errors


def test_a_classical_code_is_trained_for_bits() -> None:
    code = Code.of(HAMMING, 0.1)
    decoder = Decoder(code, rule=SumProduct(), sweeps=5)
    trained = Trained(edges=True, sweeps=False, memory=False, priors=True)
    sampler = Gaussian(code, [3.0, 4.0])
    decoder.fit(sampler, BitwiseCrossEntropy(), trained=trained, steps=30, dev=500, report=10, progress=False)
    assert decoder.legs[0].memory is None and decoder.legs[0].prior is not None
    fixed = sampler.draw(300, np.random.default_rng(0))
    decoder.fit(fixed, BlockError(), trained=trained, steps=5, dev=fixed, report=5, progress=False)


def test_an_interrupted_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, options = toric(3), {"steps": 12, "dev": 200, "report": 4, "progress": False, "seed": 3}
    whole = Decoder(code, sweeps=5).fit(Flips(code), **options)
    kept, made = ledger.write_checkpoint, []

    def interrupt(*given: object) -> None:
        kept(*given)  # type: ignore[arg-type]
        made.append(1)
        if len(made) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "write_checkpoint", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Decoder(code, sweeps=5).fit(Flips(code), checkpoint=tmp_path / "c", **options)
    monkeypatch.setattr(ledger, "write_checkpoint", kept)
    again = Decoder(code, sweeps=5).fit(Flips(code), checkpoint=tmp_path / "c", **options)
    for one, other in zip(whole.legs[0].parameters(), again.legs[0].parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.history_.dev == whole.history_.dev
    with pytest.raises(FormatError, match="this checkpoint is of another run: its training was"):
        Decoder(code, sweeps=5).fit(Flips(code), checkpoint=tmp_path / "c", **{**options, "seed": 4})


def test_bad_options_get_one_sentence() -> None:
    decoder, sampler = Decoder(HAMMING, 0.1, sweeps=4), Flips(Code.of(HAMMING, 0.1))
    for options, problem in (
        ({"leg": 3}, "leg 3 does not exist; the decoder has 1 legs, counted from 0"),
        ({"steps": 0}, "steps and report must be at least 1"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"hard": 2.0}, "hard must be a share from 0 to 1"),
        ({"kept": [9]}, "kept must be numbers of sweeps from 1 to 4"),
    ):
        with pytest.raises(ValueError, match=problem):
            decoder.fit(sampler, progress=False, **options)
    with pytest.raises(ValueError, match="there are no shots to train on"):
        decoder.fit(Shots(np.zeros((0, 3), np.uint8)), progress=False)
    with pytest.raises(ValueError, match="nothing is trained"):
        Trained(False, False, False, False)
