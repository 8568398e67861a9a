"""The images' dial: sweeps of BP, images that stop by themselves, neighbours left out, half the pixels.

In: binary images (BSDS) under noise that differs from image to image, so that some are easy. Out:
:class:`~dial_rows.Dial`. An answer is from images to labels: potentials, inference, the most probable label.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dial_rows import Dial, Setting
from loopwise.apps.grid_crf import GridCRF
from loopwise.apps.grid_crf.model import GridPotentials, Lattice, TiedPair
from loopwise.budget import (
    Bias,
    Gate,
    Gated,
    LargestChange,
    MeanChange,
    Policy,
    Slowing,
    Stopping,
    SweepCost,
    Undecided,
    fit,
    fit_policy,
    prune,
)
from loopwise.gradient.unroll import Unroll
from loopwise.graph.evidence import Role
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, MessagePassing
from loopwise.inference.messages.schedules import Flooding, Schedule, Sequential
from loopwise.learn.data.examples import Examples
from loopwise.learn.system import System
from loopwise.loss import MSE
from loopwise.loss.univariate import UnivariateLikelihood
from studies.domke.images.data import ImageCounts, find_berkeley, natural

NOISE = (0.35, 1.0)  # standard deviations, image by image in turn
SWEEPS = (1, 2, 4, 8, 16, 30)
LIMIT = 30
ZIGZAG = (1, 2, 4)  # sequential sweeps
TOLERANCES = (0.1, 0.01)
PRICES = (0.003, 0.01, 0.03)  # of stopping: what all sweeps cost, in units of the squared error
GATES = (0.001, 0.01, 0.03)  # of neighbours
AT_ONCE = 4  # images
FEATURES = (Bias(), LargestChange(), MeanChange(), Slowing(), Undecided())


@dataclass(frozen=True)
class Pictures:
    """What the channel says of each pixel as log-odds ``[images, 1, rows, columns]``, and the truth."""

    odds: Tensor
    labels: NDArray[np.int64]

    @property
    def size(self) -> tuple[int, int]:
        return self.labels.shape[1], self.labels.shape[2]

    def examples(self, graph: object) -> Examples:
        flat = self.labels.reshape(len(self.labels), -1)
        return Examples.of(graph, flat, [Role.OUTPUT] * flat.shape[1], images=self.odds)  # type: ignore[arg-type]

    def halved(self) -> Pictures:
        """Blocks of 2 x 2 pixels as one: odds added, labels by majority."""
        pooled = torch.nn.functional.avg_pool2d(self.odds, 2)
        share = torch.nn.functional.avg_pool2d(torch.from_numpy(self.labels)[:, None].double(), 2)
        return Pictures(pooled, (share[:, 0] > 0.5).long().numpy())


class OnLattice(nn.Module):
    """Potentials of any image as those of one size, with the graph that goes with it."""

    def __init__(self, potentials: GridPotentials, lattice: Lattice) -> None:
        super().__init__()
        self.potentials, self.graph = potentials, lattice.graph

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        tables: dict[str, Tensor] = self.potentials(images)
        return tables


def pictures(data: Path, quick: bool) -> tuple[Pictures, Pictures]:
    """Training and test images."""
    amounts = ImageCounts(train=6, test=8, crop=(60, 90)) if quick else ImageCounts(train=16, test=40)
    found = natural(find_berkeley(data) if data.is_dir() else None, amounts, seed=0)
    return noisy(found.train[1], 1), noisy(found.test[1], 2)


def noisy(labels: NDArray[np.int64], seed: int) -> Pictures:
    """Normal noise of a size that the images in turn have; its size is estimated from differences of neighbours."""
    rng = np.random.default_rng(seed)
    sizes = np.array([NOISE[place % len(NOISE)] for place in range(len(labels))])
    seen = labels + sizes[:, None, None] * rng.standard_normal(labels.shape)
    apart = np.abs(np.diff(seen, axis=2)).reshape(len(seen), -1)
    estimate = np.median(apart, axis=1) / 0.6745 / np.sqrt(2)  # of normal noise; edges hardly move the median
    odds = (seen - 0.5) / estimate[:, None, None] ** 2
    return Pictures(torch.from_numpy(odds)[:, None], labels)


def bp(sweeps: int, tolerance: float = 0.0, schedule: Schedule | None = None) -> BP:
    return BP(iterations=sweeps, tolerance=tolerance, schedule=schedule or Flooding(), engine=Compiled(1))


def trained(train: Pictures, method: MessagePassing, neighbours: int = 4, quick: bool = False) -> GridPotentials:
    """Weights for just this inference, from crops of the training images."""
    rows, columns = (min(size, 64) for size in train.size)
    crf = GridCRF(
        neighbours=neighbours,
        pair=TiedPair(2, directions=4 if neighbours == 8 else 1),
        inference=replace(method, gradient=Unroll()),
        iterations=5 if quick else 15,
    )
    images = train.odds[:, 0, :rows, :columns].numpy()
    crf.fit(images, train.labels[:, :rows, :columns], loss=[UnivariateLikelihood()], progress=False)
    return crf.potentials_


@dataclass(frozen=True)
class Labeller:
    """A system on images of one size; ``doubled``: it saw them at half size."""

    system: System
    doubled: bool = False

    def labels(self, test: Pictures) -> NDArray[np.int64]:
        found = []
        with torch.no_grad():
            for start in range(0, len(test.labels), AT_ONCE):
                odds = test.odds[start : start + AT_ONCE]
                if self.doubled:
                    odds = torch.nn.functional.avg_pool2d(odds, 2)
                tables = self.system.potentials(images=odds)
                best = self.system.inference(self.system.graph, tables).variables.argmax(-1)
                best = best.reshape(len(odds), *odds.shape[2:])
                found.append(best.repeat_interleave(2, 1).repeat_interleave(2, 2) if self.doubled else best)
        return torch.cat(found).numpy()


def on(potentials: GridPotentials, pictures: Pictures, method: object) -> System:
    return System(OnLattice(potentials, potentials.lattice(*pictures.size)), method).eval()  # type: ignore[arg-type]


def image_dial(data: Path, quick: bool) -> Dial:
    """Trains, checks and lists."""
    train, test = pictures(data, quick)
    made: list[Setting] = []

    def add(curve: str, name: str, answer: Callable[[Pictures], NDArray[np.int64]], **notes: float) -> None:
        wrong = 100.0 * float((answer(test) != test.labels).mean())
        made.append(Setting(curve, name, lambda: answer(test), wrong, notes))

    sweeps = (1, 4, LIMIT) if quick else SWEEPS
    weights = {count: trained(train, bp(count), quick=quick) for count in sweeps}
    for count in sorted(sweeps, reverse=True):
        add("sweeps, trained for them", f"{count}", Labeller(on(weights[count], test, bp(count))).labels)
    add("sweeps, trained for them", "0 (each pixel alone)", threshold)
    for count in () if quick else ZIGZAG:
        method = bp(count, schedule=Sequential())
        add("sequential sweeps", f"{count}", Labeller(on(trained(train, method), test, method)).labels)
    for tolerance in TOLERANCES:
        labeller = Labeller(on(weights[LIMIT], test, bp(LIMIT, tolerance)))
        add("images stop at a tolerance", f"change {tolerance:g}", labeller.labels, sweeps=mean_sweeps(labeller, test))
    for price in PRICES[1:2] if quick else PRICES:
        labeller = Labeller(on(weights[LIMIT], test, policy(weights[LIMIT], train, price)))
        check_policy(labeller.system, test)
        add("images stop by a policy", f"price {price:g}", labeller.labels, sweeps=mean_sweeps(labeller, test))
    if not quick:
        for name, system, left in fewer_neighbours(train, test):
            add("8 neighbours, gated", name, Labeller(system).labels, directions=left)
        for count in (4, 8):
            half = trained(train.halved(), bp(count))
            add("half size", f"{count} sweeps", Labeller(on(half, test.halved(), bp(count)), doubled=True).labels)
    about = {"train": len(train.labels), "test": len(test.labels), "size": list(test.size), "noise": list(NOISE)}
    return Dial("Grid model, binary images", "images", "wrong pixels, %", len(test.labels), made, about)


def threshold(test: Pictures) -> NDArray[np.int64]:
    return (test.odds[:, 0] > 0).long().numpy()


def policy(potentials: GridPotentials, train: Pictures, price: float) -> Stopping:
    """Learnt on whole training images, for the squared error and the share of all sweeps."""
    some = Pictures(train.odds[:4], train.labels[:4])
    stopping = Stopping(bp(LIMIT), Policy(FEATURES))
    system = on(potentials, some, stopping)
    fit_policy(system, some.examples(system.graph), MSE(), price, cost=SweepCost())
    return stopping


def fewer_neighbours(train: Pictures, test: Pictures) -> list[tuple[str, System, float]]:
    """Eight neighbours, whose four directions have a table each and pay for themselves or go."""
    crops = Pictures(train.odds[:, :, :64, :64], train.labels[:, :64, :64])
    method, found = bp(4), []
    for price in GATES:
        potentials = trained(train, method, neighbours=8)
        system = on(potentials, crops, method)
        gate = Gate().scaled_to(system.graph, system.tables(inputs={"images": crops.odds}))
        gated = System(Gated(system.potentials, gate), method)
        fit(gated, crops.examples(system.graph), MSE(), price, epochs=10, batch=4, progress=False)
        whole = System(Gated(OnLattice(potentials, potentials.lattice(*test.size)), gate), method).eval()
        few = test.examples(whole.graph)[:2]
        smaller = prune(whole, few).eval()
        with torch.no_grad():
            apart = (smaller.potentials(images=few.inputs["images"])["pair"].shape[-3]) / len(
                potentials.lattice(*test.size).ends
            )
            one = smaller.inference(smaller.graph, smaller.potentials(images=few.inputs["images"])).states
            two = whole.beliefs(few).states
        if not float((one - two).abs().max()) < 1e-9:
            sys.exit("a pruned grid does not believe what the gated one does: nothing was timed")
        found.append((f"price {price:g}", smaller, round(4 * apart, 2)))
    return found


def mean_sweeps(labeller: Labeller, test: Pictures) -> float:
    system = labeller.system
    with torch.no_grad():
        found = system.inference(system.graph, system.potentials(images=test.odds[:8])).status.sweeps
    return round(float(found.double().mean()), 2)


def check_policy(system: System, test: Pictures) -> None:
    """What a policy stops with is what the traced run believed then."""
    few = test.odds[:3]
    stopping = system.inference
    assert isinstance(stopping, Stopping)
    with torch.no_grad():
        tables = system.potentials(images=few)
        fast, slow = stopping(system.graph, tables), stopping.every_sweep(system.graph, tables)
        last = fast.status.sweeps - 1
        apart = float((fast.states - slow.beliefs.states[last, torch.arange(len(few))]).abs().max())
    if not apart < 1e-9:
        sys.exit(f"a policy's beliefs differ from the traced run's by {apart:.2g}: nothing was timed")
