r"""Fair conditions: every training run to its end, a prior for likelihood, and budgets down to one sweep.

In: a folder and a seed. Out: a run for each model, training and budget, in a file of its own. The tables of the paper
train by SMD with gains that stop likelihood early; here each objective is finished (Adam whose rate falls to zero by a
cosine), likelihood also has an L2 prior chosen on held-out training examples, and the true parameters are judged under
the same budgets as those that were trained for them. Likelihood and the loss are also trained under messages in random
order, as libDAI sends them. The models are drawn anew, not those of the tables: what made us
look here had been seen on those.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR

from loopwise.demo.workers import one_thread
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import RandomSequential
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import evaluate, score_examples
from loopwise.learn.fit import fit
from loopwise.learn.optim.adam import cosine
from loopwise.learn.stages import Goals
from loopwise.learn.system import System
from loopwise.learn.training import TrainingError
from loopwise.potentials.priors import L2, Prior
from loopwise.potentials.tables import TablePotentials
from studies.erma.models import ErmaModel, SampleSizes, Size, as_tables, load_model, published_sizes
from studies.erma.protocol import F_TEST, L1_TEST, LOGL_TEST, MSE_TEST, TESTS, Test
from studies.erma.training import TOLERANCE, soft_risk, truth_inference
from studies.harness.results import FULL, QUICK
from studies.harness.runs import load_arrays, save_arrays, write_run
from studies.harness.statistics import Floats

FRESH = 1000  # added to the seed: other models than those of the tables
CONVERGED = 0  # stands for "to convergence" among budgets

TRUE, LIKELIHOOD, WITH_PRIOR, RISK = "truth", "LOGL", "LOGL + L2", "MSE"
F_LATER, L1_LATER = "F after MSE", "L1 after MSE"
WIDE, WIDE_STAGED = "MSE from N(0,1)", "MSE from N(0,1), staged"
BUDGETED = (LIKELIHOOD, WITH_PRIOR, RISK)  # trained at every budget; the others at the largest
SHUFFLED_TRUE, SHUFFLED_LIKELIHOOD, SHUFFLED_RISK = (f"{train}, random order" for train in (TRUE, LIKELIHOOD, RISK))
SHUFFLED = (SHUFFLED_TRUE, SHUFFLED_LIKELIHOOD, SHUFFLED_RISK)
LATER = {F_LATER: F_TEST, L1_LATER: L1_TEST}


@dataclass(frozen=True)
class BudgetProtocol:
    """How much is run. Epochs are those of one stage, whose rate falls to zero."""

    sizes: tuple[Size, ...] = field(default_factory=published_sizes)
    sampling: SampleSizes = field(default_factory=SampleSizes)
    budgets: tuple[int, ...] = (100, 30, 20, 10, 5, 3, 2, 1)
    shuffled: int = 10  # sweeps in random order
    likelihood_epochs: int = 40
    risk_epochs: int = 30
    warm_up: int = 3  # epochs of likelihood before the loss
    later_epochs: int = 10  # of F and L1, after a finished MSE
    strengths: tuple[float, ...] = (0.03, 0.01, 0.003, 0.001, 0.0003)  # of the prior, strongest first: 0.001 is N(0,1)
    path_epochs: int = 10  # at each strength, from where the stronger one ended
    held_out: float = 0.2  # share of the training examples that chooses the strength
    batch: int = 32

    @property
    def largest(self) -> int:
        return max(self.budgets)


LIKELIHOOD_RATE, RISK_RATE, LATER_RATE = 0.03, 0.01, 0.003  # of Adam, at the beginning

BUDGET_PROTOCOLS = {
    FULL: BudgetProtocol(),
    QUICK: BudgetProtocol(
        sizes=(Size(50, 100), Size(50, 200)),
        sampling=SampleSizes(train=320, test=400, burn_in=500),
        budgets=(100, 10, 2),
        likelihood_epochs=12,
        risk_epochs=10,
        later_epochs=4,
        strengths=(0.03, 0.003),
        path_epochs=4,
    ),
}


@dataclass(frozen=True)
class BudgetJob:
    """One training of one model for one number of sweeps; the truth is judged under all of them."""

    size: Size
    train: str
    sweeps: int

    @property
    def name(self) -> str:
        return f"{self.size.name} {self.train}, {self.sweeps} sweeps"

    def path(self, folder: Path) -> Path:
        name = "".join(letter if letter.isalnum() else "-" for letter in self.train)
        return folder / f"budget-{self.size.name}-{name}-{self.sweeps}.json"

    def cost(self) -> float:
        """How long it takes compared with others."""
        dear = {LIKELIHOOD: 2.0, WITH_PRIOR: 3.0, SHUFFLED_LIKELIHOOD: 4.0, SHUFFLED_RISK: 2.0}.get(self.train, 1.0)
        return dear * (150 + self.size.edges) * (20 + min(self.sweeps, 40))


FACTS = ("seconds", "objective", "left", "strength", "ended")  # of a run, besides its losses and tables


@dataclass(frozen=True, eq=False)
class BudgetRun:
    """A finished job: the mean loss of the test examples, by test and by the sweeps it was found with; and the tables,
    in a file of their own, without which all but later losses can be told."""

    losses: dict[tuple[str, int], float]
    tables: Floats  # [edges, 2, 2]
    seconds: float
    objective: float = float("nan")  # what was minimised, on the training examples
    left: float = float("nan")  # by how much the last quarter of the epochs still lowered it
    strength: float = 0.0  # of the prior that was chosen
    ended: str = ""

    def save(self, path: Path) -> None:
        facts = {name: getattr(self, name) for name in FACTS}
        save_arrays(tables_beside(path), {"tables": self.tables})
        write_run(path, {**facts, "losses": [[test, sweeps, loss] for (test, sweeps), loss in self.losses.items()]})

    @staticmethod
    def load(path: Path) -> BudgetRun:
        stored = json.loads(path.read_text(encoding="utf-8"))
        losses = {(test, sweeps): loss for test, sweeps, loss in stored["losses"]}
        beside = tables_beside(path)
        tables = load_arrays(beside)["tables"] if beside.exists() else np.zeros((0, 2, 2))
        return BudgetRun(losses, tables, **{name: stored[name] for name in FACTS})


def tables_beside(path: Path) -> Path:
    """The file of a run's tables."""
    return path.with_suffix(".npz")


def jobs_of(protocol: BudgetProtocol) -> list[BudgetJob]:
    """All of them, small models first."""
    return list(_jobs(protocol))


def _jobs(protocol: BudgetProtocol) -> Iterator[BudgetJob]:
    for size in sorted(protocol.sizes, key=lambda size: size.edges):
        yield BudgetJob(size, TRUE, protocol.largest)
        for train in BUDGETED:
            yield from (BudgetJob(size, train, sweeps) for sweeps in protocol.budgets)
        yield from (BudgetJob(size, train, protocol.largest) for train in (*LATER, WIDE, WIDE_STAGED))
        yield from (BudgetJob(size, train, protocol.shuffled) for train in SHUFFLED)


def run_job(job: BudgetJob, protocol: BudgetProtocol, folder: Path, seed: int) -> None:
    """Trains, tests and saves."""
    began = time.perf_counter()
    model = load_model(folder, job.size, seed + FRESH, protocol.sampling, threads=1)
    with one_thread(), ignored_convergence():
        shuffled = job.train in SHUFFLED
        trained = FinishedTraining(model, protocol, inference(job.sweeps, shuffled), seed)
        facts: dict[str, Any] = {}
        if job.train in (TRUE, SHUFFLED_TRUE):
            tables = model.tables.numpy()
        elif job.train in LATER:
            facts = trained.later(LATER[job.train], _finished_risk(job, protocol, folder, seed))
            tables = trained.tables
        else:
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                LIKELIHOOD: trained.likelihood,
                SHUFFLED_LIKELIHOOD: trained.likelihood,
                WITH_PRIOR: trained.with_prior,
                RISK: trained.risk,
                SHUFFLED_RISK: trained.risk,
                WIDE: partial(trained.risk, start=1.0, staged=False),
                WIDE_STAGED: partial(trained.risk, start=1.0),
            }
            facts = ways[job.train]()
            tables = trained.tables
        used = protocol.budgets if job.sweeps == protocol.largest else (job.sweeps,)
        losses = {}
        for sweeps in (*used, *((CONVERGED,) if job.train == TRUE else ())):
            losses.update(_losses(model, tables, sweeps, shuffled))
    BudgetRun(losses, tables, time.perf_counter() - began, **facts).save(job.path(folder))


def _finished_risk(job: BudgetJob, protocol: BudgetProtocol, folder: Path, seed: int) -> Floats:
    """The weights of the finished MSE model, which is trained now if they are not there."""
    first = BudgetJob(job.size, RISK, job.sweeps)
    if not tables_beside(first.path(folder)).exists():
        run_job(first, protocol, folder, seed)
    return BudgetRun.load(first.path(folder)).tables


def inference(sweeps: int, shuffled: bool = False) -> BP:
    """BP with so many sweeps at most, in training and in testing."""
    if sweeps == CONVERGED:
        return truth_inference()
    schedule = RandomSequential() if shuffled else BP().schedule
    return BP(iterations=sweeps, tolerance=TOLERANCE, engine=Compiled(1), schedule=schedule)


def _losses(model: ErmaModel, tables: Floats, sweeps: int, shuffled: bool) -> dict[tuple[str, int], float]:
    potentials = TablePotentials(model.graph, as_tables(tables))
    found = {}
    for name, test in TESTS.items():
        system = System(potentials, inference(sweeps, shuffled), test.decoder())
        system.refresh(model.train)
        found[name, sweeps] = float(score_examples(system, model.test, test.goal()).mean())
    return found


class FinishedTraining:
    """The ways to train one model for one inference."""

    def __init__(self, model: ErmaModel, protocol: BudgetProtocol, method: BP, seed: int) -> None:
        self.model, self.protocol, self.method, self.seed = model, protocol, method, seed
        self.potentials = TablePotentials(model.graph)

    @property
    def tables(self) -> Floats:
        values: Floats = next(self.potentials.parameters()).detach().numpy().copy()
        return values

    def system(self, test: Test) -> System:
        return System(self.potentials, self.method, test.decoder())

    def likelihood(self) -> dict[str, Any]:
        """To the end of its own objective."""
        return self.descend(LOGL_TEST, LIKELIHOOD_RATE, self.protocol.likelihood_epochs, start=0.1)

    def with_prior(self) -> dict[str, Any]:
        """The strength by the MSE of held-out training examples along a path; then all examples at that strength."""
        kept = round((1 - self.protocol.held_out) * len(self.model.train))
        train, held_out = self.model.train[:kept], self.model.train[kept:]
        judged: list[tuple[float, float, Floats]] = []
        for place, strength in enumerate(self.protocol.strengths):
            self.descend(
                LOGL_TEST, LIKELIHOOD_RATE, self.protocol.path_epochs,
                prior=L2(strength), examples=train, start=None if place else 0.1,
            )  # fmt: skip
            loss = evaluate(self.system(MSE_TEST), held_out, MSE_TEST.goal())
            judged.append((loss, strength, self.tables))
        _, strength, tables = min(judged, key=lambda choice: choice[0])
        self.begin_at(tables)
        epochs = self.protocol.likelihood_epochs // 2
        return {**self.descend(LOGL_TEST, LIKELIHOOD_RATE, epochs, prior=L2(strength)), "strength": strength}

    def risk(self, start: float = 0.1, staged: bool = True) -> dict[str, Any]:
        """The MSE, after a few epochs of likelihood or from where it starts."""
        if staged:
            self.descend(LOGL_TEST, LIKELIHOOD_RATE, self.protocol.warm_up, start=start, falling=False)
        epochs = self.protocol.risk_epochs
        return self.descend(MSE_TEST, RISK_RATE, epochs, start=None if staged else start)

    def later(self, test: Test, tables: Floats) -> dict[str, Any]:
        """Another loss, from a model that is finished for the MSE."""
        self.begin_at(tables)
        return self.descend(test, LATER_RATE, self.protocol.later_epochs)

    def begin_at(self, tables: Floats) -> None:
        with torch.no_grad():
            next(self.potentials.parameters()).copy_(torch.from_numpy(tables))

    def descend(
        self,
        test: Test,
        rate: float,
        epochs: int,
        *,
        prior: Prior | None = None,
        examples: Examples | None = None,
        start: float | None = None,
        falling: bool = True,
    ) -> dict[str, Any]:
        """Adam, whose rate falls to zero by a cosine; what was reached."""
        system, goal = self.system(test), test.goal()
        seen: list[float] = []
        ended = ""
        options: dict[str, Any] = {"prior": prior, "start": start, "seed": self.seed, "batch": self.protocol.batch}
        schedule = partial(_falling, epochs) if falling else None
        with suppress(TrainingError):  # the weights are then those of the last whole epoch, and are judged as they are
            history = _fit(system, examples or self.model.train, goal, rate, epochs, schedule, options)
            seen, ended = list(history.losses), history.ended
        late = seen[-1 - len(seen) // 4] - seen[-1] if len(seen) > 1 else float("nan")
        return {"objective": soft_risk(system, self.model.train, goal), "left": late, "ended": ended}


def _fit(
    system: System,
    examples: Examples,
    goal: Goals,
    rate: float,
    epochs: int,
    schedule: Callable[[torch.optim.Optimizer], LambdaLR] | None,
    options: dict[str, Any],
) -> Any:
    optimizer = partial(torch.optim.Adam, lr=rate)
    return fit(system, examples, goal, optimizer=optimizer, epochs=epochs, schedule=schedule, progress=False, **options)


def _falling(epochs: int, optimizer: torch.optim.Optimizer) -> LambdaLR:
    return LambdaLR(optimizer, lambda epoch: cosine(epoch, epochs))
