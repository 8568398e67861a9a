"""Training for failures: fewer of them, losses that are right, going on after a stop, files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loopwise.apps import Decoder
from loopwise.apps.decoder import Code, Flips, Gaussian, Leg, MinSum, Shots, SumProduct
from loopwise.apps.decoder.losses import BitErrors, BitwiseCrossEntropy, BlockError, ObservableFlips, ResidualParity
from loopwise.apps.decoder.training import TrainedNumbers
from loopwise.formats.errors import FormatError
from loopwise.inference.families.parity import trace
from loopwise.learn.files import ledger
from loopwise.learn.trainer import TrainingError
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
    random = np.random.default_rng(3)
    code = Code.of([np.isin(np.arange(40), random.choice(40, 6, replace=False)).astype(int) for _ in range(20)], 0.1)
    decoder = Decoder(code, rule=SumProduct(), sweeps=5)
    trained = TrainedNumbers(edges=True, sweeps=True, memory=False, priors=True)
    sampler = Gaussian(code, [4.0, 5.0])
    words = sampler.draw(4000, np.random.default_rng(1))
    before = decoder.evaluate(words)
    decoder.fit(sampler, BitwiseCrossEntropy(), trained=trained, steps=60, dev=2000, report=20, progress=False)
    assert decoder.legs[0].memory is None and decoder.legs[0].prior is not None
    assert decoder.evaluate(words).bit_errors < before.bit_errors
    fixed = sampler.draw(300, np.random.default_rng(0))
    decoder.fit(fixed, BlockError(), trained=trained, steps=5, dev=fixed, report=5, progress=False)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("rate", [0.02, 2.0])
def test_training_does_not_end_worse_than_it_began(rate: float, layered: bool) -> None:
    """A rate that spoils everything leaves the decoder as it was, number for number; memory is not even there."""
    code = Code.of(HAMMING, 0.1)
    words = Gaussian(code, 4.0).draw(4000, np.random.default_rng(3))
    decoder = Decoder(code, rule=SumProduct(), sweeps=4, layered=layered)
    before = decoder.evaluate(words)
    decoder.fit(Gaussian(code, 4.0), BitwiseCrossEntropy(), steps=12, rate=rate, dev=200, report=3, progress=False)
    after = decoder.evaluate(words)
    assert after.bit_errors <= before.bit_errors
    if decoder.history_.best == 0:
        assert after.errors == before.errors and repr(decoder.legs[0]) == "Leg(4 sweeps)"
    if rate > 1:
        assert decoder.history_.best == 0 and min(decoder.history_.dev) == decoder.history_.dev[0]


def test_a_best_round_by_luck_does_not_stay() -> None:
    """Eight words choose among rounds; new ones decide whether the choice stays."""
    code = toric(3)
    for seed in range(6):
        decoder = Decoder(code, rule=SumProduct(), sweeps=6)
        decoder.fit(Flips(code), steps=8, rate=1.0, dev=8, report=1, seed=seed, progress=False)
        held = Flips(code).draw(3000, np.random.default_rng(seed))
        plain = Decoder(code, rule=SumProduct(), sweeps=6).evaluate(held).errors
        assert decoder.evaluate(held).errors <= plain + 2 * plain**0.5
        if decoder.history_.best == 0:
            assert decoder.evaluate(held).errors == plain


def test_a_gradient_that_overflows_is_left_out() -> None:
    class Spiked(ResidualParity):
        calls = 0

        def __call__(self, code: Code, log_odds: torch.Tensor, shots: Shots) -> torch.Tensor:
            self.calls += 1
            spike = (0 * log_odds.sum()).sqrt() if self.calls == 2 else 0.0  # 0, with a gradient that is no number
            return super().__call__(code, log_odds, shots) + spike

    code, loss = toric(), Spiked()
    decoder = Decoder(code, rule=SumProduct(), sweeps=10)
    decoder.fit(Flips(code, 0.06), loss, steps=60, rate=0.03, dev=1000, report=20, progress=False)
    assert loss.calls == 60 and decoder.history_.best > 0
    assert all(bool(param.isfinite().all()) for param in decoder.legs[0].parameters())


def test_a_loss_that_is_no_number_ends_in_one_sentence_and_harms_nothing() -> None:
    class Diverging(ResidualParity):
        calls = 0

        def __call__(self, code: Code, log_odds: torch.Tensor, shots: Shots) -> torch.Tensor:
            self.calls += 1
            return super().__call__(code, log_odds, shots) * (1.0 if self.calls < 3 else float("nan"))

    code = toric()
    decoder, shots = Decoder(code, sweeps=4), Flips(code).draw(500, np.random.default_rng(0))
    before = decoder.decode_batch(shots.syndromes)
    with pytest.raises(TrainingError, match=r"the loss is nan at step 3: .*; try a lower rate"):
        decoder.fit(Flips(code), Diverging(), steps=20, dev=200, progress=False)
    np.testing.assert_array_equal(decoder.decode_batch(shots.syndromes), before)
    assert not any(param.requires_grad for param in decoder.legs[0].parameters())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("rule", [SumProduct(), MinSum(0.9, 0.05)], ids=["sum-product", "min-sum"])
@pytest.mark.parametrize(
    "loss",
    [ResidualParity(), ObservableFlips(), BitwiseCrossEntropy(), BitErrors(), BlockError()],
    ids=lambda loss: type(loss).__name__,
)
def test_gradients_of_every_loss_by_every_number(loss: Any, rule: Any, known: bool) -> None:
    """By differences: weights of tied edges and of sweeps, memory and priors, in layered sweeps of another order."""
    if not known and not isinstance(loss, ResidualParity):
        return  # these losses ask for the flips
    code, rng = toric(3, 0.08), np.random.default_rng(1)
    shots = Flips(code).draw(5, rng)
    given = shots if known else Shots(shots.syndromes, None, shots.flips)
    leg = Leg(code, 3, memory=0.1, edge_ties=np.arange(36) % 4, order=rng.permutation(9)).double()
    leg.open(edges=True, sweeps=True, memory=True, priors=True)
    names = [name for name, _ in leg.named_parameters()]
    values = [torch.tensor(rng.normal(size=param.shape) / 10, requires_grad=True) for param in leg.parameters()]

    def value(*numbers: torch.Tensor) -> torch.Tensor:
        mine = copy.copy(leg)
        mine._parameters = dict(zip(names, numbers, strict=True))
        bits = code.syndromes(given.syndromes)[0]
        checks, passing, seen = mine.arranged(code.checks, mine.passing(rule, layered=True), bits)
        odds = trace(checks, passing, mine.priors(torch.tensor(code.log_odds)[None]), seen, np.array([1, 3]))
        found: torch.Tensor = loss(code, odds, given)
        return found

    assert torch.autograd.gradcheck(value, values, atol=1e-6, fast_mode=True)


def test_ties_by_a_symmetry_keep_it() -> None:
    """Edges that a shift of the torus takes to one another share a weight: what a shifted syndrome means is shifted."""
    side, code = 4, toric(4, 0.06)
    check, bit = code.checks.edge_check, code.checks.variable
    ties = 2 * (bit // side**2) + (check != bit % side**2)
    legs = [Leg(code, 6, edge_ties=ties)]
    decoder = Decoder(code, rule=SumProduct(), legs=legs, stops=False, double=True)
    decoder.fit(
        Flips(code), trained=TrainedNumbers(memory=False), steps=40, rate=0.05, dev=500, report=20, progress=False
    )
    assert decoder.legs[0].edge is not None and len(decoder.legs[0].edge) == 4
    assert decoder.legs[0].edge.unique().numel() > 1  # trained
    syndromes = Flips(code).draw(50, np.random.default_rng(2)).syndromes

    def shifted(rows: np.ndarray, grids: int) -> np.ndarray:
        return np.roll(rows.reshape(-1, grids, side, side), (1, 2), (2, 3)).reshape(rows.shape)

    found, moved = (decoder.run(rows, soft=True).log_odds for rows in (syndromes, shifted(syndromes, 1)))
    np.testing.assert_allclose(moved, shifted(found, 2), atol=1e-9)


def test_bits_are_judged_where_bits_count() -> None:
    code = Code.of(HAMMING, 0.1)
    dev = Gaussian(code, 3.0).draw(500, np.random.default_rng(0))
    decoder = Decoder(code, rule=SumProduct(), sweeps=4)
    counts = decoder.evaluate(dev)
    rates = []
    for loss in (BitwiseCrossEntropy(), BitErrors(), BlockError()):
        rates.append(copy.deepcopy(decoder).fit(dev, loss, steps=1, dev=dev, progress=False).history_.dev[0])
    assert rates == pytest.approx([counts.bit_errors / (7 * 500)] * 2 + [counts.rate])


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


def test_certain_bits_are_trained_on() -> None:
    """Infinite log-odds count as very large ones, as they do in decoding."""
    code = Code.of(HAMMING, 0.1)
    words = Gaussian(code, 2.0).draw(300, np.random.default_rng(0))
    assert words.errors is not None and words.log_odds is not None
    odds = words.log_odds.copy()
    odds[::3, 0], odds[::5, 1], odds[::7] = np.inf, -np.inf, 0.0
    known = Shots(words.syndromes, words.errors, None, odds)
    for layered in (False, True):
        decoder = Decoder(code, rule=SumProduct(), sweeps=4, layered=layered)
        decoder.fit(known, BitErrors(), steps=6, report=3, dev=words, progress=False)
        assert len(decoder.history_) == 3
        assert all(np.isfinite(epoch.loss) for epoch in decoder.history_[1:])


def test_bad_options_get_one_sentence() -> None:
    decoder, sampler = Decoder(HAMMING, 0.1, sweeps=4), Flips(Code.of(HAMMING, 0.1))
    for options, problem in (
        ({"leg": 3}, "leg 3 does not exist; the decoder has 1 legs, counted from 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
        ({"steps": 1.5}, "steps must be a whole number of at least 1, not 1.5"),
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"dev": 0}, "dev must be a whole number of at least 1, not 0"),
        ({"dev": Shots(np.zeros((0, 3), np.uint8))}, "dev holds no shots to judge by"),
        ({"rate": 0.0}, "rate must be a number above 0, not 0.0"),
        ({"clip": -1}, "clip must be a number above 0, not -1"),
        ({"spread": float("nan")}, "spread must be a number of at least 0, not nan"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"kept": [1.5]}, "each of kept must be a whole number of at least 1, not 1.5"),
        ({"loss": BlockError}, "loss must be a loss of decoders, .* not the class BlockError itself"),
        ({"trained": "edges"}, "trained must be a TrainedNumbers"),
        ({"source": 5}, "the source must be shots, or a sampler that draws them"),
        ({"source": Flips(toric())}, "the syndromes of these shots are of shape .* are they of another one"),
        ({"hard": 2.0}, "hard must be a share from 0 to 1"),
        ({"kept": [9]}, "kept must be numbers of sweeps from 1 to 4"),
    ):
        with pytest.raises(ValueError, match=problem):
            decoder.fit(**{"source": sampler, "progress": False, **options})
    with pytest.raises(ValueError, match="there are no shots to train on"):
        decoder.fit(Shots(np.zeros((0, 3), np.uint8)), progress=False)
    with pytest.raises(ValueError, match="nothing is trained"):
        TrainedNumbers(False, False, False, False)
