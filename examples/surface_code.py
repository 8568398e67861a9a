"""A stim circuit in, a trained decoder out, its logical error rate plotted.

The circuit is a rotated surface code under circuit noise. Ten sweeps are trained at one noise for what happens to the
observable; then the same numbers serve other noises, alone and with legs of a relay after them, of which the likeliest
of five solutions is taken. Beside them the ten sweeps as they were, alone and with ordered statistics for what they
leave. Needs ``pip install 'loopwise[decoder]'``. Run it: ``python examples/surface_code.py --out surface.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import stim

import loopwise as lw
from loopwise.apps.decoder import OSD, Code, Counts, Leg, SumProduct, relay
from loopwise.apps.decoder.circuits import CircuitShots, code_of_circuit
from loopwise.plot.curves import Curve, Panel, panels
from loopwise.plot.style import save

NOISES = (0.002, 0.003, 0.005, 0.007, 0.01)
TRAINED_AT = 0.007
SWEEPS = 10


def surface_code(noise: float, distance: int) -> Any:
    """As many rounds as the distance; noise after gates and resets, and before measurements."""
    return stim.Circuit.generated(
        "surface_code:rotated_memory_z",
        distance=distance,
        rounds=distance,
        after_clifford_depolarization=noise,
        after_reset_flip_probability=noise,
        before_measure_flip_probability=noise,
    )


def trained_legs(circuit: Any, steps: int) -> list[Leg]:
    """The numbers of ten sweeps, trained on shots of the circuit; half of them are such as it does not explain."""
    decoder = lw.apps.Decoder.from_circuit(circuit, rule=SumProduct(), sweeps=SWEEPS)
    decoder.fit(CircuitShots(circuit), steps=steps, rate=0.03, hard=0.5)
    print(f"failures on held-out shots: {decoder.history_.dev[0]:.4f} before, {min(decoder.history_.dev):.4f} after")
    return decoder.legs


def decoders_of(code: Code, legs: list[Leg]) -> dict[str, lw.apps.Decoder]:
    """Who is compared."""
    rule = SumProduct()
    return {
        f"{SWEEPS} sweeps": lw.apps.Decoder(code, rule=rule, sweeps=SWEEPS),
        f"{SWEEPS} sweeps, trained": lw.apps.Decoder(code, rule=rule, legs=legs),
        f"{SWEEPS} sweeps, then OSD": lw.apps.Decoder(code, rule=rule, sweeps=SWEEPS, second=OSD(10)),
        "trained, then a relay": lw.apps.Decoder(
            code, rule=rule, legs=[*legs, *relay(code, 7, SWEEPS)[1:]], solutions=5
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--distance", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--shots", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("surface_code.png"))
    options = parser.parse_args()
    legs = trained_legs(surface_code(TRAINED_AT, options.distance), options.steps)
    found: dict[str, dict[float, Counts]] = {}
    for noise in NOISES:
        circuit = surface_code(noise, options.distance)
        for name, decoder in decoders_of(code_of_circuit(circuit), legs).items():
            counts = found.setdefault(name, {})[noise] = decoder.evaluate(CircuitShots(circuit), options.shots)
            print(f"noise {noise:g}, {name}: {counts}")
    curves = [
        Curve(
            name,
            list(points),
            [one.rate for one in points.values()],
            [(one.interval[1] - one.interval[0]) / 2 for one in points.values()],
            dashed="trained" not in name,
        )
        for name, points in found.items()
    ]
    title = f"Surface code, distance {options.distance}"
    save(panels([Panel(title, "noise", "logical error rate", curves, log_y=True, ticks=True)]), options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
