"""Trainings that several processes run together, for test_distributed.py: each in this file's own process.

In: a name, a folder. Out: ``NAME.RANK.pt`` in the folder: weights, history, what went wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import loopwise as lw
from loopwise.learn.distributed import _leave, apart, team
from loopwise.potentials.features import Features
from oracles import few_kernels
from oracles.template_cases import SkipChain
from oracles.walk_cases import chain_documents, chain_model

RANK = int(os.environ.get("RANK", 0))
GRAPH = lw.random_mrf(6, 8, seed=3, unary=True)
INPUT, OUTPUT, HIDDEN, _ = lw.Role
FEW = lw.BP(iterations=3, tolerance=0)
MSE = lw.loss.MSE()


def data(count: int = 21, seed: int = 0) -> lw.Examples:
    """All outputs copy an input, with noise."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.integers(0, 2, (count, 1)), 6, axis=1) ^ (rng.random((count, 6)) < 0.1)
    return lw.Examples.of(GRAPH, values, [INPUT, OUTPUT, OUTPUT, HIDDEN, OUTPUT, OUTPUT])


def system(decoder: Any = None, seed: int = 1) -> lw.System:
    return lw.System(lw.TablePotentials.random(GRAPH, seed=seed, scale=0.1), FEW, decoder)


def trained(made: lw.System, *arguments: Any, **options: Any) -> dict[str, Any]:
    history = lw.fit(made, *arguments, **options)
    return {"weights": dict(made.state_dict()), "losses": history.losses, "dev": [e.dev for e in history.epochs]}


def adam(folder: Path) -> dict[str, Any]:
    """With a rate that is found, development data, a prior, clipping, batches that leave a rank with nothing."""
    return trained(system(), data(), MSE, epochs=3, batch=4, dev=data(8, 1), prior=lw.prior.L2(0.01), clip=1.0, seed=5)


def smd(folder: Path) -> dict[str, Any]:
    """Second derivatives; a loss that pools its statistics, so that ranks need each other's."""
    goal = lw.loss.F1(positive=1, reduction=lw.loss.Pooled())
    made = system(lw.decode.SoftArgmax(0.5))
    return trained(made, data(), goal, optimizer=lambda p: lw.optim.SMD(p, gain=0.2), epochs=3, batch=10)


def lbfgs(folder: Path) -> dict[str, Any]:
    nll = lw.loss.SurrogateLikelihood()
    return trained(
        system(), data(), nll, optimizer=lambda p: lw.optim.LBFGS(p, iterations=8), epochs=1, prior=lw.prior.L2(0.1)
    )


def weighted(folder: Path) -> dict[str, Any]:
    """Examples that count differently; batches of which ranks have shares of other weight."""
    examples = data().weighted(np.linspace(0.1, 3.0, 21))
    return trained(system(), examples, MSE, epochs=2, batch=6, optimizer=torch.optim.Adam)


def weighted_pool(folder: Path) -> dict[str, Any]:
    """The same with statistics that are pooled, and all examples at once."""
    goal = lw.loss.F1(positive=1, reduction=lw.loss.Pooled())
    examples = data().weighted(np.linspace(3.0, 0.1, 21))
    made = system(lw.decode.SoftArgmax(0.5))
    return trained(made, examples, goal, optimizer=lambda p: lw.optim.LBFGS(p, iterations=4), epochs=1)


def weighted_likelihood(folder: Path) -> dict[str, Any]:
    """The same for the likelihood of whole examples."""
    examples = data().weighted(np.arange(1, 22))
    nll = lw.loss.SurrogateLikelihood()
    return trained(system(), examples, nll, optimizer=lambda p: lw.optim.SMD(p, gain=0.2), epochs=2, batch=5)


def adagrad(folder: Path) -> dict[str, Any]:
    """Sparse gradients, of other rows on each rank."""
    graph, count, rng = lw.FactorGraph([2, 2], {"unary": [[0], [1]]}), 20, np.random.default_rng(2)
    features = Features.of_table(rng.integers(0, 40, (2 * count, 3)), batch=(count,))
    examples = lw.Examples.of(graph, rng.integers(0, 2, (count, 2)), [OUTPUT] * 2, features={"unary": features})
    made = lw.System(lw.SparsePotentials.of(graph, {"unary": 40}), lw.Exact(), graph=graph)
    optimizer = lambda p: lw.optim.AdaGradCOMID(p, 0.2)  # noqa: E731
    return trained(made, examples, MSE, optimizer=optimizer, epochs=3, batch=6, prior=lw.prior.L2(0.05))


def template(folder: Path) -> dict[str, Any]:
    """Examples of different sizes, each with its own graph; a batch by total size."""
    rng = np.random.default_rng(4)
    words = [rng.integers(0, 4, int(length)) for length in rng.integers(1, 9, 13)]
    sentences = [{"words": each.tolist(), "tags": (each % 2).tolist()} for each in words]
    nll = lw.loss.SurrogateLikelihood()
    return trained(lw.System(SkipChain(), FEW), sentences, nll, optimizer=torch.optim.SGD, epochs=3)


def restarts(folder: Path) -> dict[str, Any]:
    return trained(system(), data(), MSE, epochs=2, batch=8, restarts=2, start=0.1, optimizer=torch.optim.SGD)


def walk(folder: Path) -> dict[str, Any]:
    """A learner of walks, its documents in four shards."""
    learner = lw.walk.SampleRank(chain_model(), lw.walk.GibbsChange(), metric=lw.metric.Accuracy(), seed=3)
    check = folder / f"walk.{os.environ.get('WORLD_SIZE', 1)}.check"
    learner.fit(chain_documents((3, 5, 4, 6, 2)), steps=20, epochs=3, shards=4, checkpoint=check)
    return {"weights": {"raw": torch.from_numpy(learner.raw), "mean": torch.from_numpy(learner.weights)}}


def other_data(folder: Path) -> dict[str, Any]:
    return trained(system(), data(seed=RANK), MSE, epochs=1)


def other_epochs(folder: Path) -> dict[str, Any]:
    return trained(system(), data(), MSE, epochs=1 + RANK)


def own_training(folder: Path) -> dict[str, Any]:
    with apart():
        return trained(system(), data(seed=RANK), MSE, epochs=1, optimizer=torch.optim.SGD)


def fails_on_one(folder: Path) -> dict[str, Any]:
    """A goal that fails for the examples of the second process."""

    class Picky(lw.loss.MSE):
        def statistics(self, prediction: Any, targets: Any) -> Any:
            if RANK:
                raise ValueError("example 17 is impossible")
            return super().statistics(prediction, targets)

    return trained(system(), data(), Picky(), epochs=1, optimizer=torch.optim.SGD)


def first_fails(folder: Path) -> dict[str, Any]:
    return trained(system(), data(), MSE, epochs=1, optimizer=torch.optim.SGD, checkpoint=folder / "no" / "folder")


def wrapped(folder: Path) -> dict[str, Any]:
    team()  # starts the process group
    return trained(nn.parallel.DistributedDataParallel(system()), data(), MSE)  # type: ignore[arg-type]


def left(folder: Path) -> dict[str, Any]:
    """What runs on when the process has left the others: it stays the last case, nobody can be reached after it."""
    trained(system(), data(), MSE, epochs=1, optimizer=torch.optim.Adam)
    _leave()
    tasks = Path("/proc/self/task")
    return {"threads": [(task / "comm").read_text().strip() for task in tasks.iterdir()] if tasks.exists() else []}


def resumed(folder: Path) -> dict[str, Any]:
    """The second process is killed after two epochs, unless it was before."""
    killed = folder / "killed"
    again = killed.exists()
    seen = []

    def watch(epoch: Any) -> None:
        seen.append(epoch.number)
        killed.touch() if epoch.number == 2 else None

    class Mortal(lw.loss.MSE):
        def statistics(self, prediction: Any, targets: Any) -> Any:
            if RANK == 1 and killed.exists() and not again:
                os._exit(9)
            return super().statistics(prediction, targets)

    found = trained(
        system(), data(), Mortal(), epochs=4, batch=8, optimizer=torch.optim.Adam,
        checkpoint=folder / "run.check", callback=watch,
    )  # fmt: skip
    return {**found, "seen": seen}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    case.__name__: case
    for case in (
        adam, smd, lbfgs, weighted, weighted_pool, weighted_likelihood, adagrad, template, restarts, walk, other_data,
        other_epochs, own_training, fails_on_one, first_fails, wrapped, resumed,
        left,
    )
}  # fmt: skip

if __name__ == "__main__":
    few_kernels.in_this_process()
    place = Path(sys.argv[1])
    for name in sys.argv[2:]:
        try:
            found = CASES[name](place)
        except Exception as problem:
            found = {"problem": f"{type(problem).__name__}: {problem}"}
        torch.save(found, place / f"{name}.{RANK}.pt")
