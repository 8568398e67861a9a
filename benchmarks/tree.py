"""Projective edge marginals and their gradient: ours against torch-struct.

    python benchmarks/tree.py [--quick] [--figure PATH]

Batches of 32 sentences of equal length, float64, one thread: edge marginals and the gradient of a random linear loss
of them. torch-struct's DependencyCRF is used if it can be imported; else its formulation written again here (Eisner's
items in the log domain, all spans of one width at a time, marginals as a derivative that is differentiated once more),
and the output says which. Values and gradients are compared before anything is timed, in processor time. Then our cost
against the length of the sentence, in both domains and without projectivity, with the exponent of its growth. Last
line of output: JSON with `vs_torch_struct_n20`, `vs_torch_struct_n40`, `exponent` and more.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.graph.structured.edges import EdgeFactor
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree

BATCH = 32
Run = Callable[[], tuple[Tensor, Tensor]]


def medians(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median processor seconds of each contender, taking turns, after one unmeasured call. All run on one thread, so
    that other work on the machine, which these few milliseconds would be lost in, is left out."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            begin = time.process_time()
            run()
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def scores_of(tokens: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Scores of all edges and weights of the loss, ``[sentences, edges]``."""
    generator = torch.Generator().manual_seed(tokens)
    edges = tokens * tokens
    return tuple(
        torch.randn(2, BATCH, edges, generator=generator, dtype=torch.float64)
        * torch.tensor([scale, 1.0])[:, None, None]
    )  # type: ignore[return-value]


def ours(factor: EdgeFactor, scale: float = 1.0) -> Run:
    scores, weights = scores_of(factor.tokens, scale)

    def run() -> tuple[Tensor, Tensor]:
        given = scores.clone().requires_grad_()
        marginals = factor.edge_marginals(given)
        return marginals.detach(), torch.autograd.grad((marginals * weights).sum(), given)[0]

    return run


def rival(tokens: int) -> tuple[str, Run]:
    """torch-struct, or its formulation; results in the order of our edges."""
    scores, weights = scores_of(tokens)
    edges = torch.tensor(ProjectiveTree(tokens).edges)
    name, marginals_of = _library() or ("torch-struct's formulation, rewritten", _rewritten)

    def run() -> tuple[Tensor, Tensor]:
        given = scores.clone().requires_grad_()
        matrix = given.new_zeros(BATCH, tokens + 1, tokens + 1).index_put(
            (torch.arange(BATCH)[:, None], edges[:, 0], edges[:, 1]), given
        )
        marginals = marginals_of(matrix)[:, edges[:, 0], edges[:, 1]]
        return marginals.detach(), torch.autograd.grad((marginals * weights).sum(), given)[0]

    return name, run


def _library() -> tuple[str, Callable[[Tensor], Tensor]] | None:
    try:
        import torch_struct
    except ImportError:
        return None

    def marginals_of(matrix: Tensor) -> Tensor:
        """Its potentials have the root on the diagonal, and tokens from 0."""
        inner = matrix[:, 1:, 1:] + torch.diag_embed(matrix[:, 0, 1:])
        found = torch_struct.DependencyCRF(inner, multiroot=True).marginals
        root = torch.diagonal(found, dim1=1, dim2=2)
        rest = found - torch.diag_embed(root)
        top = torch.cat([root.new_zeros(BATCH, 1), root], 1)[:, None]
        return torch.cat([top, torch.cat([rest.new_zeros(BATCH, rest.shape[1], 1), rest], 2)], 1)

    return "torch-struct", marginals_of


def _rewritten(matrix: Tensor) -> Tensor:
    with torch.enable_grad():
        given = matrix if matrix.requires_grad else matrix.clone().requires_grad_()
        (marginals,) = torch.autograd.grad(_log_partition(given).sum(), given, create_graph=True)
    return marginals


def _log_partition(matrix: Tensor) -> Tensor:
    """Eisner's inside pass in the log domain, vectorised over sentences and over all spans of one width.

    Charts are kept twice, by left end and by right end, so that each width is two slices and one logsumexp."""
    tokens = matrix.shape[1]
    batch = matrix.shape[0]
    impossible = -1e9
    complete = [[matrix.new_full((batch, tokens, tokens), impossible) for _ in range(2)] for _ in range(2)]
    incomplete = [[matrix.new_full((batch, tokens, tokens), impossible) for _ in range(2)] for _ in range(2)]
    left, right, by_left, by_right = 0, 1, 0, 1
    complete = [[chart.clone() for chart in pair] for pair in complete]
    for direction in (left, right):
        complete[direction][by_left][:, :, 0] = 0.0
        complete[direction][by_right][:, :, -1] = 0.0
    for width in range(1, tokens):
        starts = tokens - width
        rows, ends = torch.arange(starts), torch.arange(starts) + width
        split = torch.logsumexp(
            complete[right][by_left][:, :starts, :width] + complete[left][by_right][:, width:, -width:], -1
        )
        to_left, to_right = split + matrix[:, ends, rows], split + matrix[:, rows, ends]
        to_left = torch.cat([to_left.new_full((batch, 1), impossible), to_left[:, 1:]], 1)  # the root has no head
        for direction, value in ((left, to_left), (right, to_right)):
            incomplete[direction][by_left] = _with(incomplete[direction][by_left], value, rows, width)
            incomplete[direction][by_right] = _with(incomplete[direction][by_right], value, ends, tokens - 1 - width)
        whole_left = torch.logsumexp(
            complete[left][by_left][:, :starts, :width]
            + incomplete[left][by_right][:, width:, -1 - width : tokens - 1],
            -1,
        )
        whole_right = torch.logsumexp(
            incomplete[right][by_left][:, :starts, 1 : width + 1] + complete[right][by_right][:, width:, -width:], -1
        )
        for direction, value in ((left, whole_left), (right, whole_right)):
            complete[direction][by_left] = _with(complete[direction][by_left], value, rows, width)
            complete[direction][by_right] = _with(complete[direction][by_right], value, ends, tokens - 1 - width)
    return complete[right][by_left][:, 0, tokens - 1]


def _with(chart: Tensor, values: Tensor, rows: Tensor, column: int) -> Tensor:
    """The chart with ``values`` in one column of ``rows``; out of place, for autograd."""
    return chart.index_put((torch.arange(len(chart))[:, None], rows, torch.tensor(column)), values)


def compare(tokens: int, repeats: int) -> tuple[str, dict[str, float]]:
    name, other = rival(tokens)
    contenders: dict[str, Run] = {"ours": ours(ProjectiveTree(tokens)), name: other}
    for mine, theirs, what in zip(contenders["ours"](), other(), ("marginals", "gradients"), strict=True):
        error = float((mine - theirs).abs().max())
        if not error <= 1e-9:
            raise SystemExit(f"{what} of {name} differ from ours by {error:.2g} at {tokens} tokens: nothing was timed")
    seconds = medians(dict(contenders), repeats)
    for contender, value in seconds.items():
        print(f"{tokens:4d} tokens: {contender:40s} {1e3 * value:9.2f} ms", flush=True)
    return name, {"ours": seconds["ours"], "theirs": seconds[name]}


def growth(lengths: list[int], repeats: int) -> dict[str, list[float]]:
    """Milliseconds a batch at each length."""
    found: dict[str, list[float]] = {}
    for tokens in lengths:
        runs: dict[str, Callable[[], object]] = {
            "projective": ours(ProjectiveTree(tokens)),
            "projective, log domain": ours(ProjectiveTree(tokens), scale=500.0),
            "not projective": ours(Tree(tokens)),
        }
        for name, value in medians(runs, repeats).items():
            found.setdefault(name, []).append(1e3 * value)
    return found


def exponent(lengths: list[int], times: list[float]) -> float:
    """Slope of log time against log length over the longer half."""
    half = len(lengths) // 2
    return float(np.polyfit(np.log(lengths[half:]), np.log(times[half:]), 1)[0])


def draw(lengths: list[int], times: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, plain

    figure, axes = plt.subplots(figsize=(5.6, 3.8))
    for (name, values), colour in zip(times.items(), (BLUE, ORANGE, GREEN), strict=True):
        slope = exponent(lengths, values)
        axes.loglog(lengths, values, marker="o", color=colour, label=f"{name} (growth {slope:.2f})")
    cubic = times["projective"][-1] * (np.array(lengths) / lengths[-1]) ** 3
    axes.loglog(lengths, cubic, color=BLACK, linestyle=":", label="cubic")
    axes.set_xlabel("tokens")
    axes.set_ylabel(f"ms, {BATCH} sentences, marginals and gradient")
    axes.legend(frameon=False)
    plain(axes)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, help="where to draw cost against length (default: nowhere)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["LOOPWISE_THREADS"] = "1"
    repeats = 5 if options.quick else 15
    found = {tokens: compare(tokens, repeats) for tokens in ((20, 40) if options.quick else (10, 20, 40, 80))}
    lengths = [10, 20, 40] if options.quick else [10, 20, 40, 80, 120]
    times = growth(lengths, 3)
    for name, values in times.items():
        print(
            f"{name:24s}"
            + "".join(f"{tokens:6d}: {value:8.2f} ms" for tokens, value in zip(lengths, values, strict=True))
        )
    if options.figure:
        draw(lengths, times, options.figure)
    ratios = {f"vs_torch_struct_n{tokens}": values["theirs"] / values["ours"] for tokens, (_, values) in found.items()}
    print_summary(
        {
            "peer": found[20][0],
            **{name: round(value, 2) for name, value in ratios.items()},
            "milliseconds": {str(tokens): round(1e3 * values["ours"], 3) for tokens, (_, values) in found.items()},
            "exponent": {name: round(exponent(lengths, values), 2) for name, values in times.items()},
        }
    )


if __name__ == "__main__":
    main()
