"""Decoders of error-correcting codes, classical and quantum, trained for the failures that count."""

from __future__ import annotations

from loopwise.apps.decoder.answer import Answer
from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.decoder import Decoder
from loopwise.apps.decoder.evaluation import Counts, interval
from loopwise.apps.decoder.hard import hard_shots
from loopwise.apps.decoder.legs import Leg, relay
from loopwise.apps.decoder.picking import leg_pool, pick_legs
from loopwise.apps.decoder.rules import MinSum, SumProduct
from loopwise.apps.decoder.search import search_legs
from loopwise.apps.decoder.shots import Flips, Gaussian, Shots, awgn, bsc, erasures
from loopwise.inference.families.second_stage import OSD, Decimation

__all__ = [
    "OSD",
    "Answer",
    "Code",
    "Counts",
    "Decimation",
    "Decoder",
    "Flips",
    "Gaussian",
    "Leg",
    "MinSum",
    "Shots",
    "SumProduct",
    "awgn",
    "bsc",
    "erasures",
    "hard_shots",
    "interval",
    "leg_pool",
    "pick_legs",
    "relay",
    "search_legs",
]
