"""``loopwise denoise``: grid models of images, trained, used and measured on folders of pictures.

In: folders of PNG or NumPy files, paired by name. Out: a model file; folders of label pictures; measures. Any number of
labels and channels: denoising, segmentation and inpainting are one thing here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, grouped
from loopwise.cli.messages import is_interactive, one_line_each
from loopwise.cli.targets import MOST_ITERATIONS, SUFFIX, check_folder, target_of

if TYPE_CHECKING:
    from loopwise.apps.grid_crf import GridCRF
    from loopwise.formats.images import Pictures
    from loopwise.gradient.base import Gradient
    from loopwise.inference.base import Inference

denoise = typer.Typer(no_args_is_help=True, help="Images: train, use and measure models that label every pixel.")

VALUES_HELP = (
    "Numbers in the label files that stand for labels 0, 1, ..., separated by commas: 0,255 for black and white."
)
VOID_HELP = "Numbers in the label files of pixels without a label, separated by commas."

Images = Annotated[Path, typer.Argument(help="A folder of .png, .npy or .npz images (or one .npz file of several).")]
Labels = Annotated[Path, typer.Argument(help="The labels: files of the same names and sizes, one number a pixel.")]
Masks = Annotated[
    Path | None, typer.Option(help="A folder of masks: files of the same names, not 0 where a label counts.")
]


class ImageLossName(str, Enum):
    """Losses on marginals, by name."""

    LIKELIHOOD = "likelihood"
    UNIVARIATE = "univariate"
    CLIQUE = "clique"
    ERROR = "error"
    CLIQUE_ERROR = "clique-error"


class ImageMethodName(str, Enum):
    """Inference methods, by name."""

    TRW = "trw"
    BP = "bp"
    MEAN_FIELD = "meanfield"


class GradientName(str, Enum):
    """Estimators of gradients, by name."""

    PERTURBATION = "perturbation"
    FIXED_POINT = "fixed-point"
    UNROLL = "unroll"


class UnaryName(str, Enum):
    """Kinds of unary potentials, by name."""

    AFFINE = "affine"
    CONV = "conv"


class PairName(str, Enum):
    """Kinds of pair potentials, by name."""

    TIED = "tied"
    DIRECTED = "directed"
    CONTRAST = "contrast"


@dataclass(frozen=True)
class LabelFiles:
    """Which labels count, and by which numbers they stand in files."""

    masks: Masks = None
    label_values: Annotated[str | None, typer.Option(help=VALUES_HELP)] = None
    void: Annotated[str | None, typer.Option(help=VOID_HELP)] = None


@dataclass(frozen=True)
class ImageModel:
    """The potentials of a new model."""

    neighbours: Annotated[int, typer.Option(help="4 or 8.")] = 4
    unary: Annotated[
        UnaryName, typer.Option(help="What a pixel's label depends on: its own intensities, or a window of pixels.")
    ] = UnaryName.AFFINE
    pair: Annotated[
        PairName,
        typer.Option(help="Neighbours: one table, one for each direction, or one that depends on the contrast."),
    ] = PairName.TIED

    def make_unary(self, states: int, channels: int, seed: int) -> Any:
        """What a pixel's label depends on."""
        from loopwise.apps.grid_crf import AffineUnary, ConvUnary

        if self.unary is UnaryName.AFFINE:
            return AffineUnary(states, channels)
        return ConvUnary(states, channels, seed=seed)

    def make_pair(self, states: int) -> Any:
        """What joins neighbours."""
        from loopwise.apps.grid_crf import ContrastPair, TiedPair

        if self.pair is PairName.CONTRAST:
            return ContrastPair(states)
        return TiedPair(states, directions=self.neighbours // 2 if self.pair is PairName.DIRECTED else 1)


@dataclass(frozen=True)
class ImageInference:
    """Inference of a new model."""

    inference: Annotated[ImageMethodName, typer.Option(help="Inference, in training and in use.")] = ImageMethodName.TRW
    gradient: Annotated[
        GradientName | None,
        typer.Option(help="How inference is differentiated.", show_default="perturbation; unroll for meanfield"),
    ] = None
    tolerance: Annotated[float, typer.Option(help="Inference stops when no marginal changes by more.")] = 1e-5
    sweeps: Annotated[int, typer.Option(help="Sweeps of inference at most.", max=MOST_ITERATIONS)] = 1000

    def method(self, neighbours: int) -> Inference:
        """The method that the options describe."""
        from loopwise.apps.grid_crf.model import check_neighbours
        from loopwise.inference.mean_field.method import MeanField
        from loopwise.inference.messages.message_passing import BP, TRW
        from loopwise.inference.messages.schedules import Sequential

        check_neighbours(neighbours)
        options: dict[str, Any] = {"tolerance": self.tolerance, "iterations": self.sweeps}
        if self.inference is ImageMethodName.MEAN_FIELD:
            return MeanField(**options, gradient=_gradient(self.gradient or GradientName.UNROLL))
        options |= {"schedule": Sequential(), "gradient": _gradient(self.gradient or GradientName.PERTURBATION)}
        return BP(**options) if self.inference is ImageMethodName.BP else TRW(rho=2 / neighbours, **options)


@dataclass(frozen=True)
class ImageSettings:
    """How a model is trained."""

    loss: Annotated[
        ImageLossName, typer.Option(help="What to train for; error is the smooth count of wrong pixels.")
    ] = ImageLossName.UNIVARIATE
    iterations: Annotated[int, typer.Option(help="Iterations of L-BFGS at most, for each loss on the way.")] = 100
    l2: Annotated[float | None, typer.Option("--l2", help="Strength of an L2 penalty on the weights.")] = None


@denoise.command()
@grouped
def train(
    images: Images,
    labels: Labels,
    *,
    states: Annotated[int, typer.Option(help="How many labels there are.")] = 2,
    files: LabelFiles,
    model: ImageModel,
    inference: ImageInference,
    training: ImageSettings,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model.", show_default=f"the images' folder with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="For the first weights of conv.")] = 0,
) -> None:
    """Train a model on images and their labels."""
    with one_line_each():
        from loopwise.apps.grid_crf import GridCRF
        from loopwise.formats.images import picture_files, read_pictures
        from loopwise.potentials.priors import L2

        folder = images.resolve()
        read = [file for given in (images, labels, files.masks) if given is not None for file in picture_files(given)]
        target = target_of(out, folder.parent / (folder.stem + SUFFIX), inputs=read)
        values, empty = _numbers("--label-values", files.label_values), _numbers("--void", files.void) or []
        if values is not None and len(values) != states:
            raise ValueError(f"--label-values lists {len(values)} numbers for --states {states}; give one for each")
        data = read_pictures(images, labels, files.masks, states=states, values=values, void=empty)
        channels = 1 if data.images[0].ndim == 2 else data.images[0].shape[2]
        new = GridCRF(
            states=states,
            neighbours=model.neighbours,
            unary=model.make_unary(states, channels, seed),
            pair=model.make_pair(states),
            inference=inference.method(model.neighbours),
            iterations=training.iterations,
            prior=None if training.l2 is None else L2(training.l2),
            seed=seed,
        )
        new.fit(data.images, data.labels, masks=data.masks, loss=_loss(training.loss), progress=is_interactive())
        new.save(target, {"label_values": values, "void": list(empty)})
        _report(as_json, new, data, target)


@denoise.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A file that denoise train saved.")],
    images: Images,
    out: Annotated[Path, typer.Argument(help="A folder for the predicted labels, one PNG an image.")],
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Also write the probability of each label, NAME.npz.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The files written, as JSON.")] = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; prediction draws nothing.")] = 0,
) -> None:
    """Predict the label of every pixel."""
    with one_line_each():
        from loopwise.apps.grid_crf import GridCRF
        from loopwise.formats.images import picture_files, read_pictures, write_labels, write_marginals

        trained, notes = GridCRF.load_with_notes(model)
        data = read_pictures(images)
        endings = (".png", ".npz") if marginals else (".png",)
        names = [name + ending for name in data.names for ending in endings]
        files = check_folder(out, names, [model, images, *picture_files(images)])
        beliefs = trained.predict_marginals(data.images)
        out.mkdir(parents=True, exist_ok=True)
        for place, belief in enumerate(beliefs):
            write_labels(files[place * len(endings)], belief.argmax(-1), notes.get("label_values"))
            if marginals:
                write_marginals(files[place * len(endings) + 1], belief)
        typer.echo(json.dumps({"files": [*map(str, files)]}) if as_json else f"wrote {len(files)} files to {out}")


@denoise.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A file that denoise train saved.")],
    images: Images,
    labels: Labels,
    masks: Masks = None,
    label_values: Annotated[str | None, typer.Option(help=VALUES_HELP, show_default="as in training")] = None,
    void: Annotated[str | None, typer.Option(help=VOID_HELP, show_default="as in training")] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; evaluation draws nothing.")] = 0,
) -> None:
    """Error, losses and the confusion of labels on images with answers."""
    with one_line_each():
        from loopwise.apps.grid_crf import GridCRF
        from loopwise.formats.images import read_pictures

        trained, notes = GridCRF.load_with_notes(model)
        values = _numbers("--label-values", notes.get("label_values") if label_values is None else label_values)
        empty = _numbers("--void", notes.get("void") if void is None else void) or []
        data = read_pictures(images, labels, masks, states=trained.states, values=values, void=empty)
        measures = trained.evaluate(data.images, data.labels, _measures(), masks=data.masks)
        shares, confusion = _confusion(trained, data)
        if as_json:
            report = {"images": len(data.names), "measures": measures, "recall": shares, "confusion": confusion}
            typer.echo(json.dumps(report, allow_nan=False))
            return
        typer.echo(f"{'images':26} {len(data.names)}")
        for name, value in measures.items():
            typer.echo(f"{name.replace('_', ' '):26} {value:.4f}")
        for label, share in enumerate(shares):
            typer.echo(f"{f'recall of label {label}':26} {'no pixel' if share is None else f'{share:.4f}'}")


def _numbers(option: str, text: str | list[int] | None) -> list[int] | None:
    """The numbers in a list separated by commas, or those that a saved model notes."""
    from loopwise.cli.tables import named
    from loopwise.formats.errors import quoted
    from loopwise.formats.numbers import whole_in

    if not isinstance(text, str):
        return text
    found = []
    for part in named(text, option):
        number = whole_in(part.removeprefix("-"))
        if number is None:
            raise ValueError(f"{option} takes whole numbers separated by commas, not {quoted(text)}")
        found.append(-number if part.startswith("-") else number)
    if not found:
        raise ValueError(f"{option} lists no number; give some, or leave it out")
    return found


def _loss(name: ImageLossName) -> Any:
    from loopwise import loss

    return {
        ImageLossName.LIKELIHOOD: loss.SurrogateLikelihood,
        ImageLossName.UNIVARIATE: loss.UnivariateLikelihood,
        ImageLossName.CLIQUE: loss.CliqueLikelihood,
        ImageLossName.ERROR: loss.SmoothError,
        ImageLossName.CLIQUE_ERROR: loss.SmoothCliqueError,
    }[name]()


def _gradient(name: GradientName) -> Gradient:
    from loopwise.gradient.fixed_point import FixedPoint
    from loopwise.gradient.perturbation import Perturbation
    from loopwise.gradient.unroll import Unroll

    known: dict[GradientName, Gradient] = {
        GradientName.PERTURBATION: Perturbation(),
        GradientName.FIXED_POINT: FixedPoint(),
        GradientName.UNROLL: Unroll(),
    }
    return known[name]


def _measures() -> dict[str, Any]:
    from loopwise import loss
    from loopwise.loss import metric

    pooled = loss.Pooled()
    return {
        "error": metric.HammingError(reduction=pooled),
        "smooth_error": loss.SmoothError(reduction=pooled),
        "univariate_likelihood": loss.UnivariateLikelihood(reduction=pooled),
        "surrogate_likelihood": loss.SurrogateLikelihood(),
    }


def _confusion(model: GridCRF, data: Pictures) -> tuple[list[float | None], list[list[int]]]:
    """The share of each label that was found, and counts ``[right label][predicted label]``."""
    import numpy as np

    assert data.labels is not None
    counts = np.zeros((model.states, model.states), dtype=np.int64)
    for place, (label, answer) in enumerate(zip(data.labels, model.predict(data.images), strict=True)):
        counted = label >= 0 if data.masks is None else (label >= 0) & data.masks[place]
        np.add.at(counts, (label[counted], answer[counted]), 1)
    totals = counts.sum(1)
    shares = [float(counts[k, k] / totals[k]) if totals[k] else None for k in range(model.states)]
    return shares, counts.tolist()


def _report(as_json: bool, model: GridCRF, data: Pictures, target: Path) -> None:
    history = model.history_
    pixels = sum(image.shape[0] * image.shape[1] for image in data.images)
    weights = sum(weight.numel() for weight in model.potentials_.parameters())
    sizes = {"images": len(data.images), "pixels": pixels, "channels": model.channels_, "weights": weights}
    if as_json:
        typer.echo(json.dumps({"model": str(target), **sizes, "history": history.to_json()}, allow_nan=False))
        return
    typer.echo(", ".join(f"{name} {count}" for name, count in sizes.items()))
    reached = f"loss {history.losses[-1]:.4g} " if history.losses else ""  # none: the start was the optimum
    typer.echo(f"{reached}({history.ended}, {history.seconds:.1f} s)")
    typer.echo(f"saved {target}")
