"""Landscapes: losses where they say they are, and a system that is as before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import plot
from loopwise.plot.landscapes import SOFT, losses_along, survey

GRAPH = lw.chain(3)
BP = lw.BP(iterations=2, tolerance=0, engine=lw.inference.Reference())


def system(seed: int, decoder: lw.decode.BeliefDecoder | None = None) -> lw.System:
    return lw.System(lw.TablePotentials.random(GRAPH, seed=seed), BP, decoder)


def examples(count: int = 12) -> lw.Examples:
    values = np.random.default_rng(0).integers(0, 2, (count, 3))
    return lw.Examples.of(GRAPH, values, np.array([lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.OUTPUT]))


def weights(of: lw.System) -> dict[str, torch.Tensor]:
    return {name: param.detach().clone() for name, param in of.named_parameters()}


def test_both_ends_of_a_line_are_the_losses_of_the_systems() -> None:
    here, there, data, loss = system(0), system(1), examples(), lw.loss.MSE()
    found = survey(here, data, {"MSE": loss}, [weights(there)], span=(0.0, 1.0), points=3)
    expected = [lw.evaluate(each, data, loss) for each in (here, there)]
    np.testing.assert_allclose(found.losses["MSE"][[0, 2]], expected)
    half = system(0)
    half.load_state_dict({k: 0.5 * v + 0.5 * there.state_dict()[k] for k, v in here.state_dict().items()})
    np.testing.assert_allclose(found.losses["MSE"][1], lw.evaluate(half, data, loss))
    assert list(found.losses) == ["MSE"]  # with the beliefs as they are, soft and hard are one


def test_soft_losses_are_what_training_minimises() -> None:
    here, there, data = system(0, lw.decode.SoftArgmax(0.5)), system(1), examples()
    found = survey(here, data, {"L1": lw.loss.L1()}, [weights(there)], span=(0.0, 1.0), points=2)
    assert set(found.losses) == {"L1", "L1" + SOFT}
    assert found.losses["L1" + SOFT][0] == pytest.approx(float(lw.learn.risk(here, data, lw.loss.L1()).detach()))
    assert found.losses["L1"][0] == pytest.approx(lw.evaluate(here, data, lw.loss.L1()))


def test_corners_of_a_plane() -> None:
    systems, data, loss = [system(seed) for seed in range(3)], examples(), lw.loss.MSE()
    ends = [weights(each) for each in systems[1:]]
    found = survey(systems[0], data, {"MSE": loss}, ends, span=(0.0, 1.0), points=2)
    corners = [lw.evaluate(each, data, loss) for each in systems]
    np.testing.assert_allclose(found.losses["MSE"][[0, 0, 1], [0, 1, 0]], corners)  # [across, towards]


def test_the_system_is_as_before_whatever_happens() -> None:
    threshold = lw.decode.SoftApproximateF(threshold=lw.decode.PerCorpus())
    here = system(0, threshold)
    here.refresh(examples(6))
    before = {name: tensor.clone() for name, tensor in here.state_dict().items()}
    plot.landscape(here, examples(), lw.loss.MSE(), points=3)
    with pytest.raises(ValueError, match="no output variable in any batch"):
        plot.landscape(here, examples()[:0], lw.loss.MSE(), points=3)
    assert all(torch.equal(before[name], tensor) for name, tensor in here.state_dict().items())


def test_any_losses_along_any_tensors() -> None:
    start, end = {"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([0.0, 2.0])}
    found = losses_along(start, [end], [0.0, 0.5, 1.0], lambda at: [("sum", float(at["w"].sum()))])
    np.testing.assert_allclose(found["sum"], [1.0, 1.5, 2.0])


def test_what_is_drawn() -> None:
    here, there, data = system(0, lw.decode.SoftArgmax(0.5)), system(1), examples()
    goals = {"absolute": lw.loss.L1(), "likelihood": lw.loss.SurrogateLikelihood()}
    axes = plot.landscape(here, data, goals, there, points=3)
    styles = {line.get_label(): line.get_linestyle() for line in axes.get_lines()}
    assert styles["absolute"] == "-" and styles["absolute" + SOFT] == "--" and "likelihood" not in styles
    legend = axes.get_legend()
    assert legend is not None and "likelihood (right)" in [text.get_text() for text in legend.get_texts()]
    (line,) = (line for line in axes.get_lines() if line.get_label() == "absolute")
    np.testing.assert_allclose(line.get_xdata(), [-0.5, 0.5, 1.5])
    again = plot.landscape(here, data, lw.loss.MSE(), there, across=system(2), points=3)
    assert {text.get_text() for text in again.texts} == {"these", "towards", "across"}


def test_a_random_direction_depends_on_the_seed_only() -> None:
    def heights(seed: int) -> np.ndarray:
        axes = plot.landscape(system(0), examples(), lw.loss.MSE(), points=3, seed=seed)
        return np.asarray(axes.get_lines()[0].get_ydata())

    np.testing.assert_array_equal(heights(0), heights(0))
    assert not np.allclose(heights(0), heights(1))


def test_what_does_not_fit() -> None:
    here, data, loss = system(0), examples(), lw.loss.MSE()
    with pytest.raises(ValueError, match="a map shows one goal, not the 2 of MSE, MAE"):
        plot.landscape(here, data, [loss, lw.loss.L1()], across=system(1))
    with pytest.raises(ValueError, match=r"no 'potentials.*; give those of a system of the same kind"):
        plot.landscape(here, data, loss, {})
    other = lw.System(lw.TablePotentials.random(lw.chain(4), seed=0), BP)
    with pytest.raises(ValueError, match="of a system of the same shape"):
        plot.landscape(here, data, loss, other)
    with pytest.raises(ValueError, match="from a smaller share to a larger one, not from 1 to 0"):
        plot.landscape(here, data, loss, span=(1, 0))
    with pytest.raises(ValueError, match=r"points must be at least 2, .*, not 1"):
        plot.landscape(here, data, loss, points=1)
    frozen = system(0)
    frozen.requires_grad_(False)
    with pytest.raises(ValueError, match="unfreeze one"):
        plot.landscape(frozen, data, loss)
