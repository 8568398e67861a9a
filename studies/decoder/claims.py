"""What the decoders are to reach, by rules that were set before the counts (2026-11).

In: sums of counts. Out: claims, undecided where nothing was counted.
"""

from __future__ import annotations

import math

from studies.decoder.contenders import PICKED, SAME
from studies.decoder.counting import Counted
from studies.decoder.protocol import BP_OSD, CIRCUIT, GROSS, RELAY, WORDS, Setting
from studies.decoder.tables import NORMAL, bit_error
from studies.harness.claims import MISSING
from studies.harness.published import published
from studies.harness.results import Claim

MARGIN = 0.1  # of the failures of the one compared with
QUARTER = 0.25  # of its core-seconds


def claims(counted: dict[Setting, Counted]) -> list[Claim]:
    """All of them."""
    gross = [_gross(counted, p) for p in (0.03, 0.05)]
    bch = [_bch(counted, name) for name in ("trained", "layered, plain", "layered, trained")]
    return [*gross, _circuit(counted), *bch]


def upper_limit(mine: dict[str, float]) -> float:
    """The upper 95 % limit of the paired difference of failures a shot, on the shots that both decoded."""
    only, fewer, shots = mine["only"], mine["not"], mine["paired"]
    return (only - fewer + NORMAL * math.sqrt(max(only + fewer - (only - fewer) ** 2 / shots, 1.0))) / shots


def _gross(counted: dict[Setting, Counted], p: float) -> Claim:
    text = (
        f"At p = {p:g} no more failures than BP+OSD, in at most 60 sweeps over all legs and without OSD: the upper 95 "
        "% limit of the paired difference is at most 10 % of BP+OSD's failures."
    )
    rows = counted.get(Setting(GROSS, "gross", p), {})
    if PICKED not in rows:
        return Claim(f"gross-{p:g}", text, None, MISSING)
    mine, theirs = rows[PICKED], rows[BP_OSD]
    margin = MARGIN * theirs["failures"] / theirs["shots"]
    return Claim(f"gross-{p:g}", text, upper_limit(mine) <= margin, _evidence(mine, theirs, margin))


def _circuit(counted: dict[Setting, Counted]) -> Claim:
    text = (
        "Circuit noise, p = .003: failures not above relay-BP's (the upper 95 % limit of the paired difference at most "
        "10 % of the published 40 in 100,000) at no more than a quarter of its core-seconds on the same shots."
    )
    rows = counted.get(Setting(CIRCUIT, "gross", 0.003), {})
    if RELAY not in rows or SAME not in rows:
        return Claim("circuit", text, None, MISSING)
    mine, theirs, known = rows[SAME], rows[RELAY], published("decoder")["relay"]
    margin = MARGIN * known["failures"] / known["shots"]
    times = (mine["seconds"] / mine["shots"]) / (theirs["seconds"] / theirs["shots"])
    holds = upper_limit(mine) <= margin and times <= QUARTER
    return Claim("circuit", text, holds, f"{_evidence(mine, theirs, margin)}; {times:.2f} of the core-seconds")


def _evidence(mine: dict[str, float], theirs: dict[str, float], margin: float) -> str:
    return (
        f"{mine['failures']:.0f} of {mine['shots']:.0f} shots against {theirs['failures']:.0f} of "
        f"{theirs['shots']:.0f}; on the {mine['paired']:.0f} that both decoded {mine['only']:.0f} failed only here and "
        f"{mine['not']:.0f} only there; upper limit of the difference {upper_limit(mine):.3g}, margin {margin:.3g}"
    )


def _bch(counted: dict[Setting, Counted], name: str) -> Claim:
    half = published("decoder")["bch_63_45"]["trained"] / 2
    text = (
        f"BCH(63,45), 10 sweeps, 6 dB, {name}: bit errors at most half of the published figure of trained weighted BP, "
        "by their upper 95 % limit."
    )
    counts = counted.get(Setting(WORDS, "BCH_N63_K45", 6.0, 10), {}).get(name)
    if counts is None:
        return Claim(f"bch-{name}", text, None, MISSING)
    rate = counts["bits"] / counts["of bits"]
    upper = rate + NORMAL * bit_error(counts)
    return Claim(f"bch-{name}", text, upper <= half, f"{rate:.3g}, upper limit {upper:.3g}, half {half:.3g}")
