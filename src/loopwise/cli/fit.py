"""``loopwise fit``: any Markov random field on a table of variables, trained for the loss you name.

A report goes to standard output, the system to a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.auto import AutoOptions, train_auto
from loopwise.cli.groups import Checkpoint, grouped, refuse_idle
from loopwise.cli.messages import one_line_each
from loopwise.cli.tables import AUTO, EVERY, MODELS, SHAPES, named, positive_values, read_examples, read_training
from loopwise.cli.targets import MOST_ITERATIONS, SUFFIX, target_of

if TYPE_CHECKING:
    from loopwise.formats.table import DataTable
    from loopwise.graph.factor_graph import FactorGraph
    from loopwise.inference.base import Inference
    from loopwise.learn import Examples, History, System
    from loopwise.learn.evaluate import Goal
    from loopwise.learn.plan import MakeOptimizer
    from loopwise.learn.stages import Goals


class GoalName(str, Enum):
    """What to train for, by name."""

    F1 = "f1"
    MSE = "mse"
    L1 = "l1"
    HAMMING = "hamming"
    LOGLIK = "loglik"


class FitMethodName(str, Enum):
    """Inference methods that have gradients, by name."""

    BP = "bp"
    TRW = "trw"
    MEAN_FIELD = "meanfield"
    EXACT = "exact"


class OptimizerName(str, Enum):
    """Optimisers by name."""

    ADAM = "adam"
    SMD = "smd"
    SGD = "sgd"
    LBFGS = "lbfgs"


FEW_ROWS = 2000  # of a small table, whose prior is chosen unless it is given


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of a table are, and how they are joined where no file says so."""

    outputs: Annotated[
        str, typer.Option(help="Columns to predict, separated by commas; all: any column from any others.")
    ]
    hidden: Annotated[str | None, typer.Option(help="Columns never observed; they may be empty.")] = None
    ignore: Annotated[str | None, typer.Option(help="Columns that are no variables, separated by commas.")] = None
    structure: Annotated[
        str | None,
        typer.Option(
            help=f"Without a file: {SHAPES}, over the columns; or auto: a network that the data choose, trained for "
            "cells that will be missing.",
            show_default="by size",
        ),
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(
            help="With --structure auto: the share of input cells that will be missing in use; one for each input, "
            "separated by commas; or some by name, age=0.3,sex=0.1, the others never missing.",
            show_default="any share",
        ),
    ] = None
    missing_like: Annotated[
        Path | None, typer.Option(help="With --structure auto: a table whose rows miss what will be missing in use.")
    ] = None
    bins: Annotated[
        int | None,
        typer.Option(
            help="Intervals into which columns of more different numbers are cut.",
            show_default="8; with --structure auto 6",
        ),
    ] = None
    numbers: Annotated[
        str | None,
        typer.Option(help="Columns of numbers, separated by commas.", show_default="all that hold only numbers"),
    ] = None

    @property
    def predicted(self) -> list[str]:
        """The outputs."""
        return named(self.outputs, "--outputs")

    @property
    def left_out(self) -> list[str]:
        """Columns that are no variables."""
        return named(self.ignore, "--ignore")

    @property
    def numeric(self) -> list[str] | None:
        """The columns that are said to be numbers, if any are said to be."""
        return None if self.numbers is None else named(self.numbers, "--numbers")

    @property
    def automatic(self) -> bool:
        """Whether the data are to choose the structure."""
        asked = self.missing is not None or self.missing_like is not None
        return self.structure == AUTO or self.outputs == EVERY or asked


@dataclass(frozen=True)
class FitSettings:
    """How a system is trained: for what, under which inference, by which steps."""

    loss: Annotated[GoalName, typer.Option(help="What to train for.")] = GoalName.LOGLIK
    positive: Annotated[
        str | None, typer.Option(help="The label that f1 counts.", show_default="all but the first")
    ] = None
    inference: Annotated[FitMethodName, typer.Option(help="Inference, in training and in use.")] = FitMethodName.BP
    iterations: Annotated[int, typer.Option(help="Sweeps of inference.", max=MOST_ITERATIONS)] = 10
    staged: Annotated[bool, typer.Option("--staged", help="Begin with three epochs of likelihood.")] = False
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Go to the loss by way of the MSE.")] = False
    optimizer: Annotated[OptimizerName, typer.Option(help="Optimiser.")] = OptimizerName.ADAM
    rate: Annotated[
        float | None, typer.Option(help="Learning rate, or first gain.", show_default="adam 0.05, smd and sgd 0.5")
    ] = None
    epochs: Annotated[int, typer.Option(help="Passes over the table.")] = 25
    batch: Annotated[int, typer.Option(help="Rows a step; multiples of 32 are fastest.")] = 32
    l2: Annotated[
        float | None,
        typer.Option(
            "--l2",
            help="Strength of an L2 penalty on the weights, beside the mean loss of a row.",
            show_default=f"cross-validation on tables of at most {FEW_ROWS} rows without --dev, else 0",
        ),
    ] = None
    dev: Annotated[Path | None, typer.Option(help="A table to choose the best epoch by.")] = None
    patience: Annotated[int | None, typer.Option(help="Epochs without a better one before stopping.")] = None
    restarts: Annotated[int, typer.Option(help="Random starts, the best of which is kept.")] = 1

    def method(self, seed: int) -> Inference:
        """The method with its budget of sweeps, which is used up whether it converges or not."""
        if self.inference is FitMethodName.EXACT:
            from loopwise.inference.exact.method import Exact

            return Exact()
        if self.inference is FitMethodName.MEAN_FIELD:
            from loopwise.inference.mean_field.method import MeanField

            return MeanField(iterations=self.iterations, tolerance=0, seed=seed)
        from loopwise.inference.messages.message_passing import BP, TRW

        return (BP if self.inference is FitMethodName.BP else TRW)(iterations=self.iterations, tolerance=0)

    def goals(self, goal: Goal) -> Goals:
        """The goal, with what leads to it."""
        from loopwise import learn

        stages: Goals = learn.hybrid(goal) if self.hybrid else goal
        return learn.staged(stages) if self.staged else stages

    def strength(self, system: System, examples: Examples, goals: Goals, seed: int) -> float:
        """Of the L2 penalty: what is asked for; else of a small table what held-out rows prefer, unless development
        data choose the epoch."""
        from loopwise.learn.prior_choice import choose_l2

        if self.l2 is not None or self.dev is not None or len(examples) > FEW_ROWS:
            return self.l2 or 0.0
        return choose_l2(system, examples, goals, seed=seed, **self.of_fit() | {"restarts": min(self.restarts, 1)})

    def of_fit(self) -> dict[str, Any]:
        """What :func:`loopwise.fit` is told, but for the prior and development data."""
        return {
            "optimizer": _optimizer(self.optimizer, self.rate),
            "patience": self.patience,
            "epochs": self.epochs,
            "batch": self.batch,
            "restarts": self.restarts,
        }


@grouped
def fit(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[STRUCTURE] TRAIN",
            help="A .uai, .fg or .bif file whose factors are learnt anew (its numbers are not used), and a .csv table: "
            "a column for each variable, in the structure's order, a row for each example, an empty cell for a missing "
            "value.",
        ),
    ],
    *,
    columns: ColumnOptions,
    training: FitSettings,
    checkpoint: Checkpoint = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the system.", show_default=f"TRAIN with {SUFFIX}")
    ] = None,
    curve: Annotated[
        Path | None, typer.Option(help="With --structure auto: draw loss against factors and time here (.png, .svg).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON, with the history.")] = False,
    seed: Annotated[int, typer.Option(help="For random starts and the order of rows.")] = 0,
) -> None:
    """Train a Markov random field on a table: for the loss you measure, under the inference you can afford."""
    with one_line_each():
        from loopwise import learn
        from loopwise.formats.coding import BINS
        from loopwise.potentials.priors import L2

        refuse_idle(context, training.inference.value, {"iterations": ("bp", "trw", "meanfield")})
        refuse_idle(context, training.loss.value, {"positive": ("f1",)})
        model, train = _files(files)
        target = target_of(
            out,
            Path(train.name.removesuffix(".gz").removesuffix(".csv") + SUFFIX),
            inputs=(model, train, training.dev),
            checkpoint=checkpoint,
        )
        left, bins = columns.left_out, columns.bins
        if columns.automatic:
            _check_auto(context, model, columns.structure)
            shown = AutoOptions(
                columns.outputs, left, columns.missing, columns.missing_like, bins, columns.numeric, seed, curve
            )
            train_auto(train, target, shown, as_json)
            return
        if curve is not None:
            raise ValueError(f"--curve draws what --structure {AUTO} tried, and the structure is given; leave it out")
        predicted, unseen = columns.predicted, named(columns.hidden, "--hidden")
        if model is not None:
            alone = ("a table without one",)  # the structure says how many values each column has
            refuse_idle(context, "a structure file", {"bins": alone, "numbers": alone})
        cut = BINS if bins is None else bins
        graph, table = read_training(
            model, train, columns.structure, predicted, unseen, left, bins=cut, numbers=columns.numeric
        )
        examples = _examples(graph, table, predicted, unseen)
        goal, decoder = _goal(training.loss, positive_values(table.vocabulary, predicted, training.positive))
        system = _system(examples, table, training.method(seed), decoder)
        dev = None if training.dev is None else read_examples(system, training.dev, left)
        goals = training.goals(goal)
        strength = training.strength(system, examples, goals, seed)
        prior = L2(strength) if strength else None
        history = learn.fit(
            system, examples, goals, prior=prior, dev=dev, checkpoint=checkpoint, seed=seed, **training.of_fit()
        )
        system.save(target)
        _report(as_json, train, target, examples, history, strength)


def _check_auto(context: typer.Context, model: Path | None, structure: str | None) -> None:
    """Refuses what means nothing where data choose the structure."""
    if model is not None or structure not in (AUTO, None):
        what = f"--structure {structure}" if model is None else str(model)
        raise ValueError(
            f"--outputs {EVERY}, --missing and --missing-like go with --structure {AUTO}, not with {what}; leave one "
            "out"
        )
    elsewhere = ("structures that are given",)
    idle = ("loss", "inference", "iterations", "staged", "hybrid", "optimizer", "rate", "epochs", "batch", "l2", "dev")
    more = ("patience", "restarts", "checkpoint", "hidden", "positive")
    refuse_idle(context, f"--structure {AUTO}", dict.fromkeys((*idle, *more), elsewhere))


def _files(files: list[Path]) -> tuple[Path | None, Path]:
    if len(files) > 2:
        raise ValueError(f"give a structure and a table, or only a table, not {len(files)} files")
    *model, train = files
    if str(train).lower().endswith(MODELS):
        raise ValueError(f"{train} is a model file; the last file must be a .csv table to train on")
    return (model[0] if model else None), train


def _examples(graph: FactorGraph, table: DataTable, outputs: list[str], hidden: list[str]) -> Examples:
    from loopwise.learn import Examples

    return Examples.from_table(graph, table, outputs=outputs, hidden=hidden)


def _goal(loss: GoalName, positive: tuple[int, ...]) -> tuple[Goal, Any]:
    """The loss, and the decoder that is made for it."""
    from loopwise import decode
    from loopwise import loss as losses

    if loss is GoalName.F1:  # of the table as a whole: rows with few outputs have no F of their own to speak of
        return losses.F1(positive=positive, reduction=losses.Pooled()), decode.ApproximateF(positive=positive)
    if loss is GoalName.LOGLIK:
        return losses.SurrogateLikelihood(), decode.Max()
    if loss is GoalName.MSE:
        return losses.MSE(), decode.Identity()
    return (losses.L1() if loss is GoalName.L1 else losses.Hamming()), decode.SoftArgmax()


def _system(examples: Examples, table: DataTable, inference: Inference, decoder: Any) -> System:
    from loopwise.learn import System
    from loopwise.potentials import TablePotentials

    potentials = TablePotentials(examples.graph)
    return System(potentials, inference, decoder, vocabulary=table.vocabulary, roles=examples.roles[0])


def _optimizer(name: OptimizerName, rate: float | None) -> MakeOptimizer:
    import torch

    from loopwise.learn import optim

    if rate is not None and not rate > 0:
        raise ValueError(f"--rate must be positive, not {rate}")
    if name is OptimizerName.LBFGS:
        if rate is not None:
            raise ValueError(
                "--rate means nothing to --optimizer lbfgs, which searches along each direction; leave it out"
            )
        return lambda params: optim.LBFGS(params, iterations=20)
    chosen = rate if rate is not None else 0.05 if name is OptimizerName.ADAM else 0.5
    if name is OptimizerName.ADAM:
        return lambda params: optim.DenseAdam(params, lr=chosen)
    if name is OptimizerName.SGD:
        return lambda params: torch.optim.SGD(params, lr=chosen)
    return lambda params: optim.SMD(params, gain=chosen)


def _report(as_json: bool, train: Path, target: Path, examples: Examples, history: History, strength: float) -> None:
    from loopwise.graph.evidence import Role

    roles = examples.roles[0].tolist()
    sizes = {
        "rows": len(examples),
        "variables": examples.graph.variables,
        "outputs": roles.count(Role.OUTPUT),
        "hidden": roles.count(Role.HIDDEN),
        "factors": examples.graph.factors,
    }
    if as_json:
        report = {"train": str(train), "system": str(target), **sizes, "l2": strength, "history": history.to_json()}
        typer.echo(json.dumps(report, allow_nan=False))
        return
    typer.echo(", ".join(f"{name} {count}" for name, count in sizes.items()))
    typer.echo(
        f"loss {history.losses[0]:.4g} in the first epoch, {history.losses[-1]:.4g} in the last ({history.ended}, "
        f"{history.seconds:.1f} s)"
    )
    if strength:
        typer.echo(f"--l2 {strength:.3g}")
    if history.best is not None:
        typer.echo(f"best on the development data: epoch {history.best}")
    typer.echo(f"saved {target}")
