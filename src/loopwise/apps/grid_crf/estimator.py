r"""The grid model as users have it: fit, predict, score, save.

In: images, labels. Out: :class:`GridCRF`. Stage: use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.apps.class_weights import class_weights, weighted
from loopwise.apps.estimator import SampleWeights, not_fitted, taken
from loopwise.apps.grid_crf.features import ImageBatch, as_images, as_labels, by_size, parts
from loopwise.apps.grid_crf.model import (
    AffineUnary,
    ContrastPair,
    ConvUnary,
    GridPotentials,
    TiedPair,
    check_neighbours,
)
from loopwise.apps.grid_crf.report import LabelledImages, check_goal, combined, statistics
from loopwise.apps.grid_crf.training import GridObjective, GridTraining, fit_grid, published_chain
from loopwise.apps.saved import SavedEstimator, written
from loopwise.arguments import checked_whole
from loopwise.formats.files import PathLike
from loopwise.gradient.perturbation import Perturbation
from loopwise.graph.builders import grid
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.message_passing import TRW
from loopwise.inference.messages.schedules import Sequential
from loopwise.learn.callbacks import as_callbacks
from loopwise.learn.evaluate import Goal
from loopwise.learn.files.card import training_card
from loopwise.learn.files.describe import Builder, Describer
from loopwise.learn.files.fields import FieldError, Record, check_options, check_shapes, check_weights, shown
from loopwise.learn.history import History
from loopwise.learn.objective import Callback
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.progress import progress_bar
from loopwise.learn.system import answering
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.loss.metric import Accuracy
from loopwise.loss.reduction import Pooled
from loopwise.loss.univariate import UnivariateLikelihood
from loopwise.potentials.priors import Prior

SWEEPS = 1000  # of inference at most, where the user names none: strong couplings need hundreds


class GridCRF(SavedEstimator):
    r"""A conditional random field on the pixels of images, trained for a loss on its marginals (Domke 2010, eq. 27).

    .. math:: p(y \mid x) \propto \exp\Big(\sum_i \theta(y_i; x) + \sum_{i \sim j} \theta(y_i, y_j; x)\Big)

    Images may have any sizes and any number of channels; wherever images are asked for, give an array ``[images, rows,
    columns]`` or ``[images, rows, columns, channels]``, or a list of arrays of different sizes. Answers come back in
    the same form. The interface is scikit-learn's: ``clone``, grid search and cross-validation work.

    Parameters
    ----------
    states:
        How many labels there are: 0 ... states - 1.
    neighbours:
        4 or 8.
    unary:
        A module from images ``[images, channels, rows, columns]`` to log-potentials ``[images, states, rows,
        columns]``: :class:`AffineUnary` (the default), :class:`ConvUnary`, or a network of your own. It is copied.
    pair:
        A module for pairs of neighbours: :class:`TiedPair` (the default), :class:`ContrastPair`, or your own.
    inference:
        How marginals are computed, and differentiated: any method, any gradient that is valid for it. By default
        sequential TRW to a tolerance of 1e-5 of marginals with a gradient by two-sided perturbation, as published; its
        appearance probabilities are 1/2 with 4 neighbours and 1/4 with 8 (each direction is one forest).
    loss:
        What to train for, unless :meth:`fit` says; by default the univariate likelihood.
    optimizer:
        None: L-BFGS over all images. Or a function of the parameters that makes a torch optimiser, such as ``lambda
        params: torch.optim.Adam(params, lr=0.01)``: then steps are taken on ``batch`` images each.
    iterations:
        Of L-BFGS, or epochs; for each loss that is trained.
    tolerance:
        L-BFGS stops when two iterations in a row change the loss by less than this part of it.
    curvature:
        So many images on which L-BFGS first measures how the loss bends, one evaluation a weight; 0: none. Worth it for
        models of few weights on many images: the steps on all images are then few.
    batch:
        Images that go through inference at once; None: 32 small ones, or 4 large ones.
    prior:
        A penalty on the weights, such as ``lw.prior.L2(1e-4)``.
    warm_start:
        Whether :meth:`fit` goes on from the weights of the last fit. Inference, loss and optimiser may be others than
        before; unary and pair parts stay as they were trained.
    seed:
        For the order of images under a stochastic optimiser.
    class_weight:
        None, ``"balanced"``, or ``{label: weight}``: what pixels with this right label count. For losses of single
        pixels, which become weighted means over the pixels of all images together.

    After fitting: ``potentials_`` (a module), ``inference_``, ``channels_``, ``history_``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean = np.zeros((4, 8, 8), int); clean[:, 2:6, 2:7] = 1
    >>> noisy = clean + rng.normal(0, 0.6, clean.shape)
    >>> from loopwise.potentials.priors import L2
    >>> crf = GridCRF(prior=L2(0.01)).fit(noisy[:2], clean[:2])  # two such images alone let weights grow without end
    >>> bool(crf.score(noisy[2:], clean[2:]) > 0.9)
    True
    """

    potentials_: GridPotentials
    inference_: Inference
    channels_: int
    history_: History

    def __init__(
        self,
        states: int = 2,
        neighbours: int = 4,
        unary: nn.Module | None = None,
        pair: nn.Module | None = None,
        inference: Inference | None = None,
        loss: Goal | Sequence[Goal] | None = None,
        optimizer: MakeOptimizer | None = None,
        iterations: int = 100,
        tolerance: float = 1e-6,
        curvature: int = 0,
        batch: int | None = None,
        prior: Prior | None = None,
        warm_start: bool = False,
        seed: int = 0,
        class_weight: Any = None,
    ) -> None:
        self.states, self.neighbours = states, neighbours
        self.unary, self.pair = unary, pair
        self.inference, self.loss = inference, loss
        self.optimizer, self.iterations, self.tolerance = optimizer, iterations, tolerance
        self.curvature = curvature
        self.batch, self.prior, self.warm_start, self.seed = batch, prior, warm_start, seed
        self.class_weight = class_weight

    # --- Training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        images: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        masks: Any = None,
        loss: Goal | Sequence[Goal] | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        checkpoint: PathLike | None = None,
        progress: bool = True,
    ) -> GridCRF:
        """Trains on ``images`` and ``labels`` (integers in the sizes of the images, -1 where there is none).

        ``masks``: truth values in the same sizes, True where a label counts. ``loss``: a loss on marginals or a
        likelihood. Under L-BFGS one that is not convex starts from where the published chain of losses leads
        (:func:`published_chain`); a list of losses is trained as it stands, one after another. Losses are means over
        the pixels of an image, then over images. ``sample_weight``: what each image counts, as if it were there so many
        times. ``callback``: called with an :class:`~loopwise.learn.Epoch` after each
        iteration; True ends training. ``checkpoint``: a file from which the same call goes on if the process was
        stopped, to the same weights, bit for bit; written after iterations, as often as takes a tenth of the time at
        most. ``progress``: a bar, on terminals.

        Cost: an evaluation of a loss is one inference call and one backward an image; L-BFGS takes a little more than
        one an iteration.
        """
        checked_whole("states", self.states, 2)
        options = GridTraining(
            self.optimizer, self.iterations, self.tolerance, self.batch, self.prior, self.seed, self.curvature
        )
        goals = self._goals(self.loss if loss is None else loss)
        pictures = as_images(images, self.channels_ if self._continues else None)
        known = as_labels(labels, pictures, self.states, masks)
        counts = SampleWeights.of(sample_weight, len(pictures))
        if counts is not None:  # those of weight 0 are not even looked at
            pictures, known = taken(pictures, counts.rows), taken(known, counts.rows)
        blocks = by_size(pictures, known, None if counts is None else counts.counts)
        if self.class_weight is not None:
            goals = (*goals[:-1], self._weighted(goals[-1], blocks))
        if self._continues:
            self._check_structure()
            self.inference_ = default_inference(self.neighbours) if self.inference is None else self.inference
        else:
            self.begin(pictures[0].shape[2])
            self.potentials_.prepare(block.images for block in blocks)
        with progress_bar(progress, len(goals) * self.iterations) as tell:
            objective = GridObjective(self.potentials_, self.inference_, goals, blocks, options)
            self.history_ = fit_grid(objective, tell, as_callbacks(callback), checkpoint)
        pixels = sum(picture.shape[0] * picture.shape[1] for picture in pictures)
        said = f"{len(pictures)} images, {pixels} pixels, {self.states} labels"
        self.card_ = training_card(said, ", then ".join(type(goal).__name__ for goal in goals), self.history_)
        return self

    def begin(self, channels: int) -> GridPotentials:
        """Makes the model anew, untrained, for images of so many channels: what :meth:`fit` does first."""
        check_neighbours(self.neighbours)
        checked_whole("states", self.states, 2)
        unary = AffineUnary(self.states, channels) if self.unary is None else copy.deepcopy(self.unary)
        pair = TiedPair(self.states) if self.pair is None else copy.deepcopy(self.pair)
        self.potentials_ = GridPotentials(self.states, self.neighbours, unary, pair).eval()
        self.inference_ = default_inference(self.neighbours) if self.inference is None else self.inference
        self.channels_ = channels
        return self.potentials_

    def _check_structure(self) -> None:
        """Weights are for one structure; everything else may change before a warm start."""
        for name in ("states", "neighbours"):
            before, now = getattr(self.potentials_, name), getattr(self, name)
            if before != now:
                raise ValueError(
                    f"the weights were trained for {before} {name}, and a warm start cannot change that to {now}; set "
                    "warm_start=False"
                )

    @property
    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "potentials_")

    def _goals(self, loss: Goal | Sequence[Goal] | None) -> tuple[Goal, ...]:
        if isinstance(loss, list | tuple):
            if not loss:
                raise ValueError("there is no loss to train for in an empty list; give at least one")
            return tuple(check_goal(goal) for goal in loss)
        goal = check_goal(UnivariateLikelihood() if loss is None else loss)
        return published_chain(goal) if self.optimizer is None and not self._continues else (goal,)

    def _weighted(self, goal: Goal, blocks: Sequence[ImageBatch]) -> Goal:
        """The loss with class weights; a likelihood of whole images has no place for them."""
        if isinstance(goal, LikelihoodObjective):
            raise ValueError(
                f"class_weight means nothing to {type(goal).__name__}, the likelihood of whole images; choose a loss "
                "of pixels, such as lw.loss.UnivariateLikelihood()"
            )
        labels = np.concatenate([block.labels.numpy().reshape(-1) for block in blocks if block.labels is not None])
        return weighted(goal, class_weights(self.class_weight, np.arange(self.states), labels))

    # --- Use ---------------------------------------------------------------------------------------------------------

    def predict(self, images: Any, *, evidence: Any = None) -> Any:
        """The most probable label of each pixel: int64 ``[images, rows, columns]``, or a list of arrays.

        ``evidence``: labels of pixels that are given, shaped like the answer, -1 where one is asked for.
        """
        return self._answers(images, evidence, lambda beliefs, size: beliefs.variables.argmax(-1).reshape(-1, *size))

    def predict_marginals(self, images: Any, *, evidence: Any = None) -> Any:
        """The probability of each label: ``[images, rows, columns, states]``, or a list of arrays; ``evidence`` as for
        :meth:`predict`."""
        return self._answers(images, evidence, lambda beliefs, size: beliefs.variables.reshape(-1, *size, self.states))

    predict_proba = predict_marginals  # as scikit-learn calls it

    def score(self, images: Any, labels: Any, *, masks: Any = None) -> float:
        """The share of labelled pixels that are predicted rightly, over all images together."""
        return self.evaluate(images, labels, {"accuracy": Accuracy(reduction=Pooled())}, masks=masks)["accuracy"]

    def evaluate(
        self, images: Any, labels: Any, measures: Mapping[str, Goal], *, masks: Any = None
    ) -> dict[str, float]:
        """Losses, metrics and likelihoods (by the pixel) on labelled images; inference runs once for all measures."""
        rows = self.statistics(images, labels, list(measures.values()), masks=masks)
        return {name: float(combined(goal, found)) for (name, goal), found in zip(measures.items(), rows, strict=True)}

    def statistics(self, images: Any, labels: Any, measures: Sequence[Goal], *, masks: Any = None) -> list[Tensor]:
        """Of each measure a row an image, in the order of the images, for tests and standard errors of one's own."""
        pictures = as_images(images, self._fitted().channels_)
        blocks = by_size(pictures, as_labels(labels, pictures, self.states, masks))
        goals = [check_goal(measure) for measure in measures]
        found: list[list[Tensor]] = [[] for _ in goals]
        places = []
        for part in parts(blocks, self.batch):
            piece = LabelledImages(part, self.potentials_.lattice(*part.size).graph)
            with answering(self.potentials_):
                rows = statistics(goals, self.potentials_, self.inference_, piece)
            places.append(part.places)
            for own, new in zip(found, rows, strict=True):
                own.append(new)
        back = torch.from_numpy(np.argsort(np.concatenate(places)))
        return [torch.cat(own).index_select(0, back) for own in found]

    def _answers(self, images: Any, evidence: Any, answer: Callable[[Beliefs, tuple[int, int]], Tensor]) -> Any:
        pictures = as_images(images, self._fitted().channels_)
        found: list[NDArray[Any]] = [np.zeros(0)] * len(pictures)
        given = None if evidence is None else as_labels(evidence, pictures, self.states, None)
        for part in parts(by_size(pictures, given), self.batch):
            with answering(self.potentials_):
                answers = answer(self._beliefs(part), part.size)
            for place, own in zip(part.places.tolist(), answers.numpy(), strict=True):
                found[place] = own
        listed = isinstance(images, np.ndarray) and images.dtype == np.object_  # which may be of several sizes
        return np.stack(found) if isinstance(images, np.ndarray | Tensor) and not listed else found

    def _beliefs(self, part: ImageBatch) -> Beliefs:
        graph = self.potentials_.lattice(*part.size).graph
        known = None if part.labels is None else part.labels.numpy()
        return self.inference_(graph, self.potentials_(part.images), known)

    def _fitted(self) -> GridCRF:
        if not hasattr(self, "potentials_"):
            raise not_fitted("this GridCRF is not fitted yet: call fit(images, labels) first")
        return self

    # --- Files and scikit-learn --------------------------------------------------------------------------------------

    @classmethod
    def load_with_notes(cls, path: PathLike) -> tuple[GridCRF, dict[str, Any]]:
        """The model, and what was kept with it."""
        return cls._load_with_notes(path)

    @property
    def _budget(self) -> str:
        return written(self.inference_)

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "potentials_")

    def _kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        potentials = self.potentials_
        state = dict(potentials.state_dict())
        describer = Describer(grid(1, 1), {id(tensor): name for name, tensor in state.items()})
        described = {
            "states": self.states,
            "neighbours": self.neighbours,
            "channels": self.channels_,
            "unary": _describe_module("unary", potentials.unary),
            "pair": _describe_module("pair", potentials.pair),
            "inference": describer.describe(self.inference_, "inference"),
            "notes": {},
        }
        return described, {**describer.tensors, **state}

    @classmethod
    def _rebuilt(cls, told: Record) -> GridCRF:
        states, neighbours = told.whole("states", 2), told.whole("neighbours", 4, 8)
        channels = told.whole("channels", 1)
        unary, pair = (_build_module(told.record(name), name, states, channels) for name in ("unary", "pair"))
        check_weights({name: told.tensors[name] for name in told.tensors if name.startswith(("unary.", "pair."))})
        inference = Builder(grid(1, 1), told.tensors).build(told.raw("inference"), "inference")
        if not isinstance(inference, Inference):
            raise FieldError("inference", f"must describe an inference method, not {shown(inference)}")
        model = cls(states=states, neighbours=neighbours, unary=unary, pair=pair, inference=inference)
        potentials = model.begin(channels)
        potentials.load_state_dict({name: told.tensors[name] for name in potentials.state_dict()})
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )


def default_inference(neighbours: int) -> Inference:
    """TRW-S as published, for 4 or 8 neighbours: every direction is a forest, and all are equally likely. It stops by
    changes of marginals, which are all that losses look at: with strong couplings messages go on for many sweeps more.

    The sequential schedule needs a third of the sweeps of the parallel one, and less time.
    """
    return TRW(
        rho=2 / neighbours,
        tolerance=1e-5,
        iterations=SWEEPS,
        schedule=Sequential(),
        gradient=Perturbation(),
        judge_messages=False,
    )


# The modules that files may name, each with the attributes that make it again under the names of its arguments.
_MODULES: dict[str, tuple[Callable[..., nn.Module], dict[str, str]]] = {
    "AffineUnary": (AffineUnary, {"states": "states", "channels": "channels", "powers": "powers"}),
    "ConvUnary": (
        ConvUnary,
        {"states": "states", "channels": "channels", "hidden": "hidden", "kernel": "kernel", "seed": "seed"},
    ),
    "TiedPair": (TiedPair, {"states": "states", "directions": "directions"}),
    "ContrastPair": (ContrastPair, {"states": "states", "directions": "directions", "scale": "given_scale"}),
}


def _describe_module(part: str, module: nn.Module) -> dict[str, Any]:
    name = type(module).__name__
    if name not in _MODULES or type(module) is not _MODULES[name][0]:
        raise ValueError(
            f"a model whose {part} part is of class {name} cannot be saved, since loading would have to run code that "
            "is not loopwise's: save potentials_.state_dict() instead, and load it into a model that you build"
        )
    return {"class": name, "options": {key: getattr(module, own) for key, own in _MODULES[name][1].items()}}


def _build_module(told: Record, part: str, states: int, channels: int) -> nn.Module:
    """The module, untrained; that its weights are in the file was seen on one without memory first."""
    given = told.record("options")
    make = _MODULES[told.choice("class", _MODULES)][0]
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in given.values.items()}
    check_options(make, options, given.path)
    for name, wanted in (("states", states), ("channels", channels)):
        if options.get(name, wanted) != wanted:
            raise FieldError(given.name(name), f"is {options[name]}, but the model has {wanted} {name}")
    with torch.device("meta"):
        outline = make(**options).state_dict()
    check_shapes({f"{part}.{name}": tensor.shape for name, tensor in outline.items()}, told.tensors)
    return make(**options)
