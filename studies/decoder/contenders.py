"""Who decodes: this library's decoders, trained once and kept in a file, and those of others where they are installed.

In: a code. Out: :class:`Contender` by name. What is chosen (scales, legs, weights) is chosen on shots of its own.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.decoder import (
    OSD,
    Code,
    Decoder,
    Flips,
    Gaussian,
    MinSum,
    Shots,
    SumProduct,
    hard_shots,
    pick_legs,
    relay,
)
from loopwise.apps.decoder.losses import BitErrors
from loopwise.apps.decoder.training import TrainedNumbers
from loopwise.formats.files import atomic_write
from loopwise.learn.trainer import TrainingError
from studies.decoder import weighted_bp
from studies.decoder.codes import gross_code
from studies.decoder.protocol import BP_OSD, RELAY, SEED, DecoderProtocol

NOISY = 0.04  # the probability of flips that legs are picked at; they serve others, too
SWEEPS = 60  # that all legs of ours together may make on a shot of the gross code
LEGS = (14, *[12] * 8)  # of these, at most: a leg that explains a shot sooner leaves more to those after it
DISTANCE = 12  # of the gross code
MIN_SUM, RANDOM, PICKED = "min-sum", "legs drawn at random", "legs picked"
SAME, LAYERED = "relay, the same settings", "layered relay"
FIRST, LEG, RELAY_LEGS, SOLUTIONS = 80, 60, 300, 5  # sweeps of the first leg and of others, how many, when to stop
MEMORY, STRENGTHS = 0.15, (-0.22628432386414646, 0.6216020925981884)  # as published for relay-BP, as the line before
SCALES = (0.6, 0.7, 0.8, 0.9, 1.0)
RATES = (0.03, 0.01)  # of training for words
NEAR = 4  # words are trained on that a share of 1 / NEAR of all sweeps does not decode
HARD = 6_000  # such words of each ratio
MOST_DRAWN = 300_000  # words drawn for them

Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Contender:
    """``corrects``: flips for syndromes, or bits for log-odds, ``[shots, bits]``. ``share``: of each chunk that it is
    given."""

    corrects: Callable[[Any], Bits]
    share: float = 1.0


def peer(name: str) -> Any:
    """Another library, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# --- The gross code, independent flips -------------------------------------------------------------------------------


def of_gross(code: Code, folder: Path, protocol: DecoderProtocol) -> dict[str, Contender]:
    """BP+OSD, the plain min-sum, legs as drawn and legs picked."""
    scale = _tuned_scale(folder, protocol.scale_shots)
    return {
        BP_OSD: Contender(_bp_osd(code, scale, double=True)),
        MIN_SUM: Contender(Decoder(code, rule=MinSum(scale), sweeps=SWEEPS).decode_batch),
        RANDOM: Contender(_drawn(code).decode_batch),
        PICKED: Contender(_picked(code, folder, protocol).decode_batch),
    }


def _bp_osd(code: Code, scale: float, double: bool = False) -> Callable[[Bits], Bits]:
    """ldpc's where it is installed, else this library's; min-sum, 1,000 iterations, osd_cs of order 10."""
    ldpc = peer("ldpc")
    if ldpc is None:
        return Decoder(code, rule=MinSum(scale), sweeps=1000, second=OSD(10), double=double).decode_batch
    decoder = ldpc.BpOsdDecoder(
        code.checks.matrix.astype(np.uint8), error_channel=list(code.priors), max_iter=1000, bp_method="minimum_sum",
        ms_scaling_factor=scale, schedule="parallel", osd_method="osd_cs", osd_order=10,
    )  # fmt: skip
    return lambda syndromes: np.array([decoder.decode(row) for row in syndromes], dtype=np.uint8)


def _tuned_scale(folder: Path, shots: int) -> float:
    """The scale of the min-sum with the fewest failures of BP+OSD, at the noise that our legs are picked at, on shots
    of their own: at lower noise too few fail to choose by."""
    path = folder / "scale.txt"
    if not path.exists():
        code = gross_code(NOISY)
        held = Flips(code).draw(shots, np.random.default_rng([SEED, 1]))

        def errors(scale: float) -> int:
            return Decoder(code, rule=MinSum(scale), sweeps=1000, second=OSD(10), double=True).evaluate(held).errors

        with atomic_write(path) as stream:
            json.dump(min(SCALES, key=errors), stream)
    return float(path.read_text(encoding="utf-8"))


def _drawn(code: Code) -> Decoder:
    """Four legs of a relay, memory drawn at random."""
    legs = relay(code, 3, SWEEPS // 4, interval=(-0.3, 0.5), seed=SEED)
    return Decoder(code, rule=SumProduct(), layered=True, solutions=5, legs=legs)


def _picked(code: Code, folder: Path, protocol: DecoderProtocol) -> Decoder:
    """Legs picked from a pool for the failures at the higher noise."""
    path = folder / "gross.loopwise"
    if not path.exists():
        noisy = gross_code(NOISY)
        begun = Decoder(noisy, rule=SumProduct(), layered=True, budget=SWEEPS, distance=DISTANCE)
        pick_legs(
            begun, Flips(noisy), LEGS, pool=protocol.pool, shots=protocol.tried_on, seed=SEED, progress=False
        ).save(path)
    return Decoder.load(path, code)


# --- The gross code, circuit noise -----------------------------------------------------------------------------------


def of_circuit(code: Code) -> dict[str, Contender]:
    """The plain min-sum, relay-BP with its published settings, ours with the same and in fewer, layered sweeps, BP+OSD
    on some shots."""

    def relayed(first: int, sweeps: int, solutions: int, layered: bool) -> Contender:
        legs = relay(code, RELAY_LEGS, sweeps, first_sweeps=first, first_memory=MEMORY, interval=STRENGTHS, seed=SEED)
        decoder = Decoder(code, rule=MinSum(1.0), layered=layered, solutions=solutions, legs=legs)
        return Contender(decoder.decode_batch)

    found = {
        MIN_SUM: Contender(Decoder(code, rule=MinSum(0.9), sweeps=80).decode_batch),
        SAME: relayed(FIRST, LEG, SOLUTIONS, layered=False),
        LAYERED: relayed(40, 25, 3, layered=True),
    }
    relay_bp = peer("relay_bp")
    if relay_bp is not None:
        decoder = relay_bp.RelayDecoderF32(
            code.checks.matrix.astype(np.uint8), code.priors, alpha=1.0, gamma0=MEMORY, pre_iter=FIRST,
            num_sets=RELAY_LEGS, set_max_iter=LEG, gamma_dist_interval=STRENGTHS, stop_nconv=SOLUTIONS,
        )  # fmt: skip
        found[RELAY] = Contender(lambda bits: np.asarray(decoder.decode_batch(np.ascontiguousarray(bits)), np.uint8))
    if peer("ldpc") is not None:
        found[BP_OSD] = Contender(_bp_osd(code, 0.9), share=0.05)
    return found


# --- Classical codes, Gaussian noise ---------------------------------------------------------------------------------


def of_words(channel: Gaussian, sweeps: int, path: Path, steps: int) -> dict[str, Contender]:
    """The sum-product, flooding and layered, plain and trained; ``path``: of a file, to which kinds add their own."""
    found: dict[str, Contender] = {}
    for layered in (False, True):
        first = "layered, " if layered else ""
        kept = path.with_name(f"{path.name}{'_layered' if layered else ''}.loopwise")
        plain = Decoder(channel.code, rule=SumProduct(), sweeps=sweeps, layered=layered)
        if not kept.exists():
            _trained(plain, channel, steps).save(kept)
        found |= {f"{first}plain": _receiver(plain), f"{first}trained": _receiver(Decoder.load(kept))}
    return found


def of_sionna(channel: Gaussian, sweeps: int, path: Path, steps: int) -> dict[str, Contender]:
    """Sionna's, plain and weighted, on some of the words."""
    kept = path.with_name(f"{path.name}_sionna.npz")
    ours = Decoder(channel.code, rule=SumProduct(), sweeps=sweeps)
    dev = _near_failures(ours, channel, 2)
    theirs = weighted_bp.weighted(channel, sweeps, dev, kept, steps=steps, rates=RATES)
    plain = weighted_bp.plain(channel.code, sweeps)
    return {"Sionna, plain": Contender(plain, share=0.2), "Sionna, weighted": Contender(theirs, share=0.2)}


def _receiver(decoder: Decoder) -> Contender:
    return Contender(lambda received: decoder.receive(received).corrections)


def _trained(plain: Decoder, channel: Gaussian, steps: int) -> Decoder:
    """For the bits that are wrong, on words near failure, as many of each ratio; in large or small steps, and with or
    without memory and priors of bits, whichever has fewer wrong bits on held-out words; plain if none has."""
    words, dev = (_near_failures(plain, channel, seed) for seed in (1, 2))
    sweeps = plain.legs[0].sweeps
    tried = [plain]
    for more in (False, True):
        for rate in RATES:
            with suppress(TrainingError):  # steps so large that it came to nothing
                tried.append(copy.deepcopy(plain).fit(
                    words, BitErrors(), trained=TrainedNumbers(True, True, more, more),
                    steps=steps, batch=256, rate=rate,
                    kept=range(max(1, sweeps // 2), sweeps + 1), spread=0.01, dev=dev, report=50, seed=SEED,
                    progress=False,
                ))  # fmt: skip
    return min(tried, key=lambda one: one.evaluate(dev).bit_errors)


def _near_failures(plain: Decoder, channel: Gaussian, seed: int) -> Shots:
    """Words that few sweeps do not decode, as many of each ratio if so many are found."""
    early = max(1, plain.legs[0].sweeps // NEAR)
    return Shots.joined([
        hard_shots(
            plain, Gaussian(channel.code, one, channel.rate), HARD, sweeps=early, most=MOST_DRAWN,
            seed=10_000 * seed + int(10 * one),
        )
        for one in channel.decibels
    ])  # fmt: skip
