"""Decoders: time a sweep and shot against ldpc and relay-bp, and a training step against plain torch.

In: the codes of the data collection, made or read; ldpc, relay-bp and stim where they are installed (what is missing is
left out). Out: a table, one line of JSON: ``us_per_sweep_shot``, ``vs_ldpc``, ``vs_relay``, ``train_vs_torch``. One
thread each; contenders take turns; decisions are compared before anything is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from common import folder_in, option_parser, print_summary
from loopwise.apps.decoder import Code, Decoder, Flips, MinSum, SumProduct
from loopwise.apps.decoder.losses import ResidualParity
from loopwise.compiled.arithmetic import LANES
from loopwise.inference.families.parity import trace

SWEEPS = 20
MOST_DIFFERENT = 0.02  # share of shots whose decisions may differ, where log-odds are 0 but for rounding


def gross_matrix() -> np.ndarray:
    """The 72 x 144 checks of the [[144,12,12]] code."""
    ell, m = 12, 6
    shift = [np.roll(np.eye(size, dtype=int), 1, axis=1) for size in (ell, m)]
    x, y = np.kron(shift[0], np.eye(m, dtype=int)), np.kron(np.eye(ell, dtype=int), shift[1])
    power = np.linalg.matrix_power
    return np.hstack([power(x, 3) + y + power(y, 2), power(y, 3) + x + power(x, 2)]) % 2


def circuit_code(data: Path) -> tuple[Code, np.ndarray] | None:
    """Circuit-level noise of the gross code, its Z detectors: blocks of 72, the first, every second, the last."""
    try:
        from loopwise.apps.decoder.circuits import CircuitShots, code_of_circuit, read_circuit

        circuit = read_circuit(folder_in(data, "codes", "circuits") / "gross_144_12_12_memory_Z_p0.003.stim.gz")
    except ValueError as problem:
        print(f"left out: {problem}")
        return None
    blocks = [0, *range(1, 23, 2), 23]
    detectors = np.concatenate([np.arange(72 * block, 72 * block + 72) for block in blocks])
    code = code_of_circuit(circuit, detectors)
    return code, CircuitShots(circuit).draw(2048, np.random.default_rng(0)).syndromes


def peer(name: str) -> Any:
    """A module, or None where it is not installed."""
    try:
        return __import__(name)
    except ImportError:
        print(f"left out: {name} is not installed")
        return None


def fastest(contenders: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """The least microseconds a sweep and shot of each, in turns; each returns how many sweeps it made in all."""
    found = dict.fromkeys(contenders, math.inf)
    for _ in range(rounds):
        for name, run in contenders.items():
            begin = time.perf_counter()
            sweeps = run()
            found[name] = min(found[name], 1e6 * (time.perf_counter() - begin) / sweeps)
    return found


def same_answers(mine: Decoder, theirs: Any, syndromes: np.ndarray) -> None:
    """A one-sentence end unless decisions agree."""
    found = mine.decode_batch(syndromes)
    other = np.array([theirs.decode(row) for row in syndromes])
    share = float((found != other).any(1).mean())
    if share > MOST_DIFFERENT:
        raise SystemExit(f"decisions of {share:.1%} of the shots differ: nothing was timed")


def against_ldpc(code: Code, syndromes: np.ndarray, their_shots: int, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of both, for both rules."""
    ldpc, found = peer("ldpc"), {}
    matrix = code.checks.matrix.astype(np.uint8)
    mine_bits = syndromes if code.detectors is None else syndromes[:, code.detectors]
    for name, rule, method in (("min_sum", MinSum(0.8), "minimum_sum"), ("sum_product", SumProduct(), "product_sum")):
        decoder = Decoder(code, rule=rule, sweeps=SWEEPS)

        def ours(decoder: Decoder = decoder) -> int:
            return int(decoder.run(syndromes).sweeps.sum())

        contenders: dict[str, Callable[[], int]] = {"loopwise": ours}
        if ldpc is not None:
            peer_decoder = ldpc.BpDecoder(
                matrix, error_channel=list(code.priors), max_iter=SWEEPS, bp_method=method, ms_scaling_factor=0.8,
                schedule="parallel",
            )  # fmt: skip
            subset = np.flatnonzero(syndromes.any(1))[:their_shots]
            same_answers(decoder, _Rows(peer_decoder, mine_bits, syndromes), syndromes[subset[:200]])

            def other(peer_decoder: Any = peer_decoder, rows: np.ndarray = mine_bits[subset]) -> int:
                total = 0
                for row in rows:
                    peer_decoder.decode(row)
                    total += peer_decoder.iter
                return total

            contenders["ldpc"] = other
        ours()
        found[name] = fastest(contenders, rounds)
    return found


class _Rows:
    """A peer that decodes the bits of the checks, asked with whole syndromes."""

    def __init__(self, decoder: Any, bits: np.ndarray, syndromes: np.ndarray) -> None:
        self.decoder, self.known = decoder, {row.tobytes(): mine for row, mine in zip(syndromes, bits, strict=True)}

    def decode(self, row: np.ndarray) -> Any:
        return self.decoder.decode(np.ascontiguousarray(self.known[row.tobytes()]))


def against_relay(code: Code, syndromes: np.ndarray, their_shots: int, rounds: int) -> dict[str, float]:
    """Microseconds of both with memory, on shots that neither explains."""
    from loopwise.apps.decoder import Leg

    relay_bp = peer("relay_bp")
    decoder = Decoder(code, legs=[Leg(code, SWEEPS, memory=0.1)])
    contenders: dict[str, Callable[[], int]] = {"loopwise": lambda: int(decoder.run(syndromes).sweeps.sum())}
    contenders["loopwise"]()
    if relay_bp is not None:
        bits = np.ascontiguousarray(
            (syndromes if code.detectors is None else syndromes[:, code.detectors])[:their_shots]
        )
        theirs = relay_bp.RelayDecoderF32(
            code.checks.matrix.astype(np.uint8), code.priors, gamma0=0.1, pre_iter=SWEEPS, num_sets=0, set_max_iter=1,
            gamma_dist_interval=(0.0, 0.1), stop_nconv=1,
        )  # fmt: skip
        contenders["relay"] = lambda: sum(one.iterations for one in theirs.decode_detailed_batch(bits))
    return fastest(contenders, rounds)


def torch_step(code: Code, errors: np.ndarray, looks: np.ndarray) -> Callable[[], Tensor]:
    """A step of plain torch: sum-product, weights by edge and sweep, memory, the residual's parities."""
    checks = code.checks
    index = torch.from_numpy(checks.variable.reshape(checks.count, -1))
    edges = torch.from_numpy(np.argsort(checks.variable, kind="stable").reshape(checks.variables, -1))
    dense = torch.from_numpy(checks.matrix.toarray()).float()
    e = torch.from_numpy(errors).float()
    sign = (1 - 2 * ((e @ dense.T) % 2))[:, :, None]
    prior = torch.from_numpy(code.log_odds).float()
    memory, edge = torch.zeros(checks.variables, requires_grad=True), torch.zeros(checks.edges, requires_grad=True)
    sweep = torch.zeros(SWEEPS, 1, requires_grad=True)

    def step() -> Tensor:
        weights, total = (edge + sweep).exp(), torch.zeros(())
        message, belief = torch.zeros(len(e), checks.edges), prior.expand(len(e), -1)
        for t in range(SWEEPS):
            bias = (1 - memory) * prior + memory * belief
            heard = (bias + message[:, edges].sum(-1))[:, index.flatten()] - message
            x = torch.tanh(heard.reshape(len(e), checks.count, -1).clamp(-12, 12) / 2)
            x = torch.where(x.abs() < 1e-4, torch.full_like(x, 1e-4), x)
            product = (x.prod(-1, keepdim=True) / x).clamp(-0.999995, 0.999995)
            message = (sign * 2 * torch.atanh(product)).reshape(len(e), -1) * weights[t]
            belief = bias + message[:, edges].sum(-1)
            if t + 1 in looks:
                q = torch.sigmoid(-belief)
                total = total + torch.sin(math.pi / 2 * ((e + q - 2 * e * q) @ dense.T)).abs().mean() / len(looks)
        memory.grad = edge.grad = sweep.grad = None
        total.backward()
        return total.detach()

    return step


def our_step(code: Code, errors: np.ndarray, looks: np.ndarray) -> Callable[[], Tensor]:
    """The same step here."""
    from loopwise.apps.decoder import Leg, Shots

    leg = Leg(code, SWEEPS)
    leg.open(edges=True, sweeps=True, memory=True)
    shots = Shots(code.checks.syndromes(errors), errors)
    prior, loss = torch.from_numpy(code.log_odds).float(), ResidualParity(0.0)

    def step() -> Tensor:
        leg.zero_grad()
        value = loss(code, trace(code.checks, leg.passing(SumProduct(), False), prior, shots.syndromes, looks), shots)
        value.backward()
        return value.detach()

    return step


def kept_by(run: Callable[[], object]) -> float:
    """MB that a step of torch keeps for its way back: tensors that are saved, each once."""
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(seen.values()) / 2**20


def training(code: Code, rounds: int) -> dict[str, float]:
    """Milliseconds and MB of one step."""
    looks = np.arange(5, SWEEPS + 1, 3)
    errors = Flips(code, 0.055).draw(256, np.random.default_rng(0)).errors
    assert errors is not None
    plain, mine = torch_step(code, errors, looks), our_step(code, errors, looks)
    if abs(float(plain()) - float(mine())) > 1e-3:
        raise SystemExit(f"losses differ, {float(plain())} and {float(mine())}: nothing was timed")
    best = {"torch": math.inf, "loopwise": math.inf}
    for _ in range(rounds):
        for name, run in (("torch", plain), ("loopwise", mine)):
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - begin))
    tape = 4 * LANES * SWEEPS * (2 * code.checks.edges + code.bits) / 2**20  # of one block of lanes, on the way back
    memory = {"loopwise_mb": kept_by(mine) + tape, "torch_mb": kept_by(plain)}
    return {**best, **memory}


def main() -> None:
    options = option_parser(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    rounds = 5 if options.quick else 15
    code = Code.of(gross_matrix(), 0.03)
    hard = Flips(code, 0.2).draw(4096, np.random.default_rng(0)).syndromes  # beyond what can be explained: all sweeps
    small = against_ldpc(code, hard, 300, rounds)
    relay = against_relay(code, hard, 300, rounds)
    step = training(code, rounds)
    found = {
        "us_per_sweep_shot": small["min_sum"]["loopwise"],
        "us_per_sweep_shot_sum_product": small["sum_product"]["loopwise"],
        "us_per_sweep_shot_memory": relay["loopwise"],
        "train_ms": step["loopwise"],
        "train_vs_torch": step["torch"] / step["loopwise"],
        "train_mb": step["loopwise_mb"],
        "train_memory_vs_torch": step["torch_mb"] / step["loopwise_mb"],
    }
    if "ldpc" in small["min_sum"]:
        found["vs_ldpc"] = small["min_sum"]["ldpc"] / small["min_sum"]["loopwise"]
        found["vs_ldpc_sum_product"] = small["sum_product"]["ldpc"] / small["sum_product"]["loopwise"]
    if "relay" in relay:
        found["vs_relay"] = relay["relay"] / relay["loopwise"]
    large = None if options.quick else circuit_code(options.data)
    if large is not None:
        made, syndromes = large
        times = against_ldpc(made, syndromes, 40, 3)["min_sum"]
        found["us_per_sweep_shot_circuit"] = times["loopwise"]
        if "ldpc" in times:
            found["vs_ldpc_circuit"] = times["ldpc"] / times["loopwise"]
        against = against_relay(made, syndromes, 40, 3)
        if "relay" in against:
            found["vs_relay_circuit"] = against["relay"] / against["loopwise"]
    for name, value in found.items():
        print(f"{name:32s} {value:10.3f}")
    print_summary(found)


if __name__ == "__main__":
    main()
