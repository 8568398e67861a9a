r"""Losses over parameters: along the line between two sets of weights, or over the plane of three.

In: a system, examples, goals, other weights. Out: numbers (:func:`losses_along`, :func:`survey`), axes. The line is
that of Stoyanov et al. (2011, Figure 1): :math:`\ell((1-\alpha)\theta+\alpha\theta')`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import Goal, evaluate
from loopwise.learn.start import SCALE, restore, snapshot
from loopwise.learn.system import CHUNK, System, answering
from loopwise.loss.base import Loss
from loopwise.loss.likelihood import LikelihoodObjective
from loopwise.plot.style import BLACK, COLOURS, MARGINALS, ORANGE, PALE, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Weights = Mapping[str, Tensor]
Goals = Goal | Sequence[Goal] | Mapping[str, Goal]
Losses = Callable[[dict[str, Tensor]], Iterable[tuple[str, float]]]
Values = NDArray[np.float64]

SOFT = " (soft)"  # ends the name of what training sees, where testing decides otherwise
ON_A_LINE, ON_A_SIDE = 41, 15  # points
LEVELS = 14  # of a map


@dataclass(frozen=True, eq=False)
class Landscape:
    """Losses by name, ``[points]`` along a line or ``[points across, points towards]`` over a plane, at ``shares``."""

    shares: Values  # [points]: the same in both directions
    losses: dict[str, Values]


def landscape(
    system: System,
    examples: Examples,
    goal: Goals,
    towards: System | Weights | None = None,
    *,
    across: System | Weights | None = None,
    span: tuple[float, float] = (-0.5, 1.5),
    points: int | None = None,
    seed: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """Draws ``goal`` on ``examples`` from the weights of ``system`` (at 0) ``towards`` other ones (at 1).

    Parameters
    ----------
    goal:
        One loss, metric or likelihood, or several, by name or in a list. Solid lines are what is measured, with hard
        decisions; dashed ones what training sees, where that is another number. Likelihoods get an axis of their own
        beside other goals.
    towards, across:
        Another system of the same shape, or its weights by name; None is a random direction as long as the weights.
        With ``across`` the picture is a map of the plane through all three, for one goal.
    span, points:
        From where to where, and how many points there are (41, or 15 in each direction of a map): each is an
        evaluation of all examples.
    seed:
        Of the random direction.

    The system is as before afterwards.
    """
    goals = _named(goal)
    if across is not None and len(goals) > 1:
        raise ValueError(
            f"a map shows one goal, not the {len(goals)} of {', '.join(goals)}; give one, or leave out across"
        )
    ends = [_end(system, towards, seed)]
    if across is not None:
        ends.append(_end(system, across, seed))
    count = points if points is not None else ON_A_LINE if across is None else ON_A_SIDE
    found = survey(system, examples, goals, ends, span=span, points=count)
    drawn_on = new_axes(*((6.4, 4.2) if across is None else (6.6, 4.8))) if axes is None else axes
    if across is None:
        _draw_lines(drawn_on, found, goals)
    else:
        _draw_map(drawn_on, found, next(iter(goals)))
    return drawn_on


def survey(
    system: System,
    examples: Examples,
    goals: Mapping[str, Goal],
    ends: Sequence[Weights],
    *,
    span: tuple[float, float] = (-0.5, 1.5),
    points: int = ON_A_LINE,
) -> Landscape:
    """The numbers behind :func:`landscape`: one end for a line, two for a plane. Cost: ``points`` to the power of the
    number of ends, times an evaluation of the examples."""
    low, high = span
    if not low < high:
        raise ValueError(f"span must go from a smaller share to a larger one, not from {low} to {high}")
    if points < 2:
        raise ValueError(f"points must be at least 2, the ends of the span, not {points}")
    start = {name: param.detach().clone() for name, param in system.named_parameters() if param.requires_grad}
    before = snapshot(system)

    def losses(weights: dict[str, Tensor]) -> Iterable[tuple[str, float]]:
        _put(system, weights)
        return _losses(system, examples, goals)

    shares = np.linspace(low, high, points)
    try:
        with ignored_convergence():
            found = losses_along(start, ends, shares, losses)
    finally:
        restore(system, before)  # thresholds of the decoder too: they are buffers
    return Landscape(shares, _without_repeats(found))


def losses_along(start: Weights, ends: Sequence[Weights], shares: ArrayLike, losses: Losses) -> dict[str, Values]:
    r"""``losses`` (names and numbers) at :math:`(1-\sum_k\alpha_k)\theta+\sum_k\alpha_k\theta_k` for all shares.

    Of one end ``[shares]``, of two ``[shares, shares]``: the last axis is the first end.
    """
    steps = np.asarray(shares, dtype=np.float64)
    rows: dict[str, list[float]] = {}
    with torch.no_grad():
        for alphas in product(steps.tolist(), repeat=len(ends)):
            for name, value in losses(_mixed(start, ends, alphas[::-1])):
                rows.setdefault(name, []).append(value)
    return {name: np.array(values).reshape((len(steps),) * len(ends)) for name, values in rows.items()}


def _mixed(start: Weights, ends: Sequence[Weights], alphas: Sequence[float]) -> dict[str, Tensor]:
    rest = 1 - sum(alphas)
    return {
        name: sum((alpha * end[name] for alpha, end in zip(alphas, ends, strict=True)), rest * tensor)
        for name, tensor in start.items()
    }


def _put(system: System, weights: Weights) -> None:
    params = dict(system.named_parameters())
    for name, tensor in weights.items():
        params[name].copy_(tensor)


def _end(system: System, given: System | Weights | None, seed: int) -> dict[str, Tensor]:
    """The weights at the other end of a line, checked against those of the system."""
    own = {name: param.detach() for name, param in system.named_parameters() if param.requires_grad}
    if not own:
        raise ValueError("the system has no parameter that is trained, so there is no line to walk; unfreeze one")
    if given is None:
        return _random_end(own, seed)
    theirs = dict(given.named_parameters()) if isinstance(given, System) else dict(given)
    for name, tensor in own.items():
        if name not in theirs:
            raise ValueError(f"the other weights have no {name!r}; give those of a system of the same kind")
        if theirs[name].shape != tensor.shape:
            raise ValueError(
                f"the other weights have {name!r} of shape {tuple(theirs[name].shape)}, the system has it of shape "
                f"{tuple(tensor.shape)}; give those of a system of the same shape"
            )
    return {name: theirs[name].detach().to(tensor) for name, tensor in own.items()}


def _random_end(own: Weights, seed: int) -> dict[str, Tensor]:
    """A normal direction, in each tensor as long as the weights are (or would be at a random start)."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, tensor in own.items():
        direction = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype).to(tensor.device)
        length = float(tensor.norm()) or SCALE * tensor.numel() ** 0.5
        found[name] = tensor + direction * (length / max(float(direction.norm()), 1e-12))
    return found


def _named(goal: Goals) -> dict[str, Goal]:
    if isinstance(goal, Mapping):
        found = dict(goal)
    else:
        listed = list(goal) if isinstance(goal, Sequence) else [goal]
        classes = [type(each).__name__ for each in listed]
        found = {
            name if classes.count(name) == 1 else f"{name} {number + 1}": each
            for number, (name, each) in enumerate(zip(classes, listed, strict=True))
        }
    if not found:
        raise ValueError("there is no goal to draw; give at least one, such as lw.loss.MSE()")
    return found


def _losses(system: System, examples: Examples, goals: Mapping[str, Goal]) -> Iterable[tuple[str, float]]:
    """What is measured, then what training sees of the same."""
    system.refresh(examples)
    yield from evaluate(system, examples, goals).items()
    trained = {name: goal for name, goal in goals.items() if isinstance(goal, Loss)}
    if not trained:
        return
    rows: dict[str, list[Tensor]] = {name: [] for name in trained}
    with answering(system):
        for part in examples.batches(CHUNK):
            decision = system(part)
            for name, goal in trained.items():
                rows[name].append(goal.statistics(decision, part.targets))
    for name, goal in trained.items():
        yield name + SOFT, float(goal.combine(torch.cat(rows[name])))


def _without_repeats(found: dict[str, Values]) -> dict[str, Values]:
    """Without soft losses that are the hard ones: where the decoder leaves beliefs as they are."""
    return {
        name: values
        for name, values in found.items()
        if not (name.endswith(SOFT) and np.allclose(values, found[name.removesuffix(SOFT)], rtol=1e-6, atol=1e-12))
    }


def _draw_lines(axes: Axes, found: Landscape, goals: Mapping[str, Goal]) -> None:
    plain(axes)
    objectives = {name for name, goal in goals.items() if isinstance(goal, LikelihoodObjective)}
    right = axes.twinx() if objectives and len(objectives) < len(goals) else None
    lines = []
    for number, name in enumerate(goals):
        for kind, style in (("", "-"), (SOFT, "--")):
            if name + kind in found.losses:
                aside = right is not None and name in objectives
                side, label = (right, f"{name} (right)") if right is not None and aside else (axes, name + kind)
                colour = BLACK if aside else COLOURS[number % len(COLOURS)]
                lines += side.plot(found.shares, found.losses[name + kind], style, color=colour, label=label)
    for place in (0.0, 1.0):
        axes.axvline(place, color=PALE, linewidth=0.8, linestyle=":")
    axes.set_xlabel("share of the way: 0 these weights, 1 the others")
    axes.set_ylabel(next(iter(goals)) if len(goals) == 1 else "loss")
    if right is not None:
        right.spines[["top"]].set_visible(False)
        right.set_ylabel("likelihood")
    if len(lines) > 1:
        axes.legend(handles=lines, frameon=False, fontsize=8)


def _draw_map(axes: Axes, found: Landscape, name: str) -> None:
    values = found.losses[name]
    drawn = axes.contourf(found.shares, found.shares, values, levels=LEVELS, cmap=MARGINALS)
    axes.contour(found.shares, found.shares, values, levels=LEVELS, colors="white", linewidths=0.4, alpha=0.6)
    for x, y, text in ((0, 0, "these"), (1, 0, "towards"), (0, 1, "across")):
        axes.plot([x], [y], "o", color=ORANGE, markeredgecolor="white", markersize=8)
        axes.annotate(
            text, (x, y), xytext=(7, 6), textcoords="offset points", color="white", fontsize=9, fontweight="bold"
        )
    axes.set_xlabel("towards")
    axes.set_ylabel("across")
    axes.set_aspect("equal")
    bar = axes.figure.colorbar(drawn, ax=axes, shrink=0.85, pad=0.03, label=name)
    bar.outline.set_visible(False)
