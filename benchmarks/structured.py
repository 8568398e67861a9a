"""A loopy model around tree factors through `lw.BP`, against the parser's kernels of another checkout.

    python benchmarks/structured.py --before ../another/checkout [--quick]

Second-order projective parsing: unions of sentences as long as those of the English Web Treebank, all arcs, a tree
factor each, pair factors for grandparents and siblings; four sweeps (pairs, then tree), beliefs and the gradient of a
random linear loss of them. The other checkout runs its parser's own kernels, sentence by sentence; this one runs the
union through `lw.BP`. Both sides have a process and one thread each and take turns; beliefs and gradients are compared
before anything is timed. Last line of output: JSON with `over_private` (time here over time there, the larger of two
unions), `one_sentence` (the same of a single one, where the cost of a call shows), and `flooding_vs_before`, how many
times as fast `lw.BP` is as that of the other checkout, by flooding.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import loopwise as lw
from common import option_parser, print_summary

try:
    from loopwise.apps.parser.features.parts import GRANDPARENTS, PROJECTIVE, SIBLINGS, list_pairs
except ImportError:  # in the other checkout, which this script runs in too
    from loopwise.kernels.parser_parts import GRANDPARENTS, PROJECTIVE, SIBLINGS, list_pairs

HERE = Path(__file__).resolve()
SWEEPS, CLOSE = 4, 1e-10
STRUCTURE = PROJECTIVE | GRANDPARENTS | SIBLINGS
# Deciles of the lengths of sentences of the treebank's training part, words up to 40.
DECILES = np.array([2, 3, 5, 7, 10, 13, 15, 18, 22, 28, 40])


class Sentence:
    """One sentence with random scores."""

    def __init__(self, tokens: int, rng: np.random.Generator) -> None:
        self.tokens, self.tree = tokens, lw.ProjectiveTree(tokens)
        self.heads, self.mods = self.tree.edges.T.copy()
        self.first, self.second, _ = list_pairs(tokens, self.heads, self.mods, STRUCTURE)
        self.arcs, self.pairs = rng.normal(size=len(self.heads)), 0.3 * rng.normal(size=len(self.first))
        self.weights = rng.normal(size=len(self.heads))

    def private(self) -> tuple[Any, Any, Any]:
        """Beliefs and gradients by the parser's kernels, which the other checkout has."""
        from loopwise.kernels.parser_bp import propagate, pull_back_run

        used, _, tape = propagate(
            self.tokens, self.heads, self.mods, self.arcs, self.first, self.second, self.pairs, SWEEPS, 0.0, STRUCTURE
        )
        of_arcs, of_pairs = np.empty(len(self.arcs)), np.empty(len(self.pairs))
        pull_back_run(
            self.tokens, self.heads, self.mods, self.first, self.second, self.pairs, used, STRUCTURE, tape,
            self.weights, of_arcs, of_pairs,
        )  # fmt: skip
        return np.exp(tape[1][used - 1]), of_arcs, of_pairs

    def graph(self) -> lw.FactorGraph:
        groups = {"arc": np.arange(len(self.arcs))[:, None], "pair": np.stack([self.first, self.second], 1)}
        return lw.FactorGraph(np.full(len(self.arcs), 2), groups, {"tree": (self.tree, range(len(self.arcs)))})


def private(sentences: list[Sentence]) -> Callable[[], np.ndarray]:
    def run() -> np.ndarray:
        return np.concatenate(
            [np.concatenate(pieces) for pieces in zip(*(s.private() for s in sentences), strict=True)]
        )

    return run


def through(sentences: list[Sentence], schedule: Any) -> Callable[[], np.ndarray]:
    """The same of their union by `lw.BP`."""
    joined = lw.graph.union([sentence.graph() for sentence in sentences]).graph
    arcs, pairs, weights = (
        torch.from_numpy(np.concatenate([getattr(sentence, name) for sentence in sentences]))
        for name in ("arcs", "pairs", "weights")
    )
    order = schedule or lw.Groups(("pair", "tree"), uniform_start=True)
    method = lw.BP(iterations=SWEEPS, tolerance=0, schedule=order)

    def run() -> np.ndarray:
        unary, table = (
            torch.zeros(len(arcs), 2, dtype=torch.float64),
            torch.zeros(len(pairs), 2, 2, dtype=torch.float64),
        )
        unary[:, 1], table[:, 1, 1] = arcs, pairs
        given = {"arc": unary.requires_grad_(), "pair": table.requires_grad_()}
        beliefs = method(joined, given).variables[:, 1]
        (beliefs * weights).sum().backward()
        assert unary.grad is not None and table.grad is not None
        return np.concatenate([beliefs.detach(), unary.grad[:, 1], table.grad[:, 1, 1]])

    return run


def unions(quick: bool) -> dict[str, list[Sentence]]:
    rng = np.random.default_rng(0)
    sizes = {"one_sentence": 1, "10_sentences": 10} | ({} if quick else {"100_sentences": 100})
    return {
        name: [Sentence(int(np.interp(place, np.linspace(0, 1, 11), DECILES)), rng) for place in rng.random(count)]
        if count > 1
        else [Sentence(20, rng)]
        for name, count in sizes.items()
    }


def serve(quick: bool, side: str) -> None:
    """Answers, on standard output, what is asked on standard input: results (saved to a file) or their time."""
    torch.set_num_threads(1)
    known: dict[str, Callable[[], np.ndarray]] = {}
    for name, sentences in unions(quick).items():
        known[name] = private(sentences) if side == "private" else through(sentences, None)
        known[f"flooding {name}"] = through(sentences, lw.BP().schedule)
    for line in sys.stdin:
        name, _, target = line.strip().partition(":")
        begin = time.perf_counter()
        found = known[name]()
        seconds = time.perf_counter() - begin
        if target:
            np.save(target, found)
        print(seconds, flush=True)


class Side:
    """A process that runs with the library of one checkout."""

    def __init__(self, folder: Path, side: str, quick: bool) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),
            "NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "loopwise-structured" / folder.name),
            "LOOPWISE_THREADS": "1",
        }
        command = [sys.executable, str(HERE), "--serve", side, *(["--quick"] if quick else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=HERE.parent, text=True
        )

    def ask(self, line: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(sides: dict[str, Side], name: str, folder: Path, rounds: int) -> tuple[float, float]:
    """Fastest seconds of both, after their results were found to be the same."""
    found = []
    for side, process in sides.items():
        process.ask(f"{name}:{folder / side}.npy")  # compiles
        found.append(np.load(folder / f"{side}.npy"))
    error = float(np.abs(found[0] - found[1]).max())
    if not error <= CLOSE:
        raise SystemExit(f"{name}: the results of the two checkouts differ by {error:.2g}: nothing was timed")
    best = [min(process.ask(name) for _ in range(rounds)) for process in sides.values()]
    print(f"{name:28s} {1e3 * best[0]:9.2f} ms there, {1e3 * best[1]:9.2f} ms here")
    return best[0], best[1]


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="a checkout whose parser has kernels of its own")
    parser.add_argument("--serve", help="(used by the script itself)")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.serve:
        serve(options.quick, options.serve)
        return
    if options.before is None or not (options.before / "src" / "loopwise").is_dir():
        raise SystemExit("--before must be another checkout of this repository")
    sides = {
        "private": Side(options.before.resolve(), "private", options.quick),
        "here": Side(HERE.parents[1], "here", options.quick),
    }
    ratios, faster = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in unions(options.quick):
            there, here = compare(sides, name, Path(folder), options.rounds)
            ratios[name] = here / there
        before, after = compare(sides, f"flooding {name}", Path(folder), 2)
        faster = before / after
    worst = max(ratio for name, ratio in ratios.items() if name != "one_sentence")
    print_summary({"over_private": worst, **ratios, "flooding_vs_before": faster})


if __name__ == "__main__":
    main()
