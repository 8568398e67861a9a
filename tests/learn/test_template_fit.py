"""Training, checkpoints and files of systems with a template."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.formats import FormatError
from loopwise.learn import hybrid, staged
from loopwise.learn.files.container import read_container, write_container
from loopwise.learn.start import generator
from oracles.template_cases import CASES, HIDDEN, OUTPUT, SENTENCES, TREES, Arcs, SkipChain

FEW = lw.BP(iterations=3, tolerance=0)


def adam(params: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, lr=0.1)


def drawn(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences in which a tag is the parity of its word, mostly; some tags are missing, some hidden."""
    rng = np.random.default_rng(seed)
    data = []
    for length in rng.integers(1, 6, count):
        words = rng.integers(0, 4, length)
        tags = np.where(rng.random(length) < 0.9, words % 2, 1 - words % 2)
        tags[rng.random(length) < 0.1] = -1
        roles = np.where(rng.random(length) < 0.1, HIDDEN, OUTPUT)
        data.append({"words": words.tolist(), "tags": tags.tolist(), "roles": roles.tolist()})
    return data


TRAIN, DEV = drawn(40), drawn(20, seed=1)


def fresh(decoder: lw.decode.BeliefDecoder | None = None, inference: lw.inference.Inference = FEW) -> lw.System:
    return lw.System(SkipChain(scale=0.1), inference, decoder)


def weights(system: lw.System) -> Tensor:
    return torch.cat([param.detach().reshape(-1) for param in system.parameters()])


OPTIMISERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "SMD": lambda params: lw.optim.SMD(params, gain=0.5),
    "L-BFGS": lw.optim.LBFGS,
    "L-BFGS of torch": torch.optim.LBFGS,
    "AdaGrad": lambda params: lw.optim.AdaGradCOMID(params, rate=0.3),
    "Adam": adam,
    "SGD": lambda params: torch.optim.SGD(params, lr=0.5),
}


@pytest.mark.parametrize("optimizer", OPTIMISERS)
def test_training_lowers_the_loss(optimizer: str) -> None:
    system = fresh(lw.decode.SoftArgmax(0.5))
    before = lw.evaluate(system, DEV, lw.loss.L1())
    history = lw.fit(
        system, TRAIN, lw.loss.L1(), optimizer=OPTIMISERS[optimizer], epochs=5, prior=lw.prior.L2(1e-3), progress=False
    )
    assert history.losses[-1] < history.losses[0]
    assert lw.evaluate(system, DEV, lw.loss.L1()) < before


@pytest.mark.parametrize("optimizer", ["AdaGrad", "Adam", "L-BFGS"])
@pytest.mark.parametrize("prior", [lw.prior.L1(0.02), lw.prior.L2(0.02), lw.prior.GroupSparsity(0.02)])
def test_priors_make_weights_smaller(prior: Any, optimizer: str) -> None:
    sizes = []
    for given in (None, prior):
        system = fresh()
        lw.fit(system, TRAIN, lw.loss.MSE(), optimizer=OPTIMISERS[optimizer], epochs=4, prior=given, progress=False)
        sizes.append(float(weights(system).abs().sum()))
    assert sizes[1] < sizes[0]


def test_a_step_is_one_of_the_mean_over_examples() -> None:
    """Plain gradient descent by hand, one example at a time, in the batches that training forms."""
    system, twin = fresh(), fresh()
    train = [sentence for sentence in TRAIN if _scored(sentence)]
    lw.fit(system, train, lw.loss.MSE(), optimizer=OPTIMISERS["SGD"], epochs=1, seed=3, progress=False,
           batch=lw.learn.TotalSize(60))  # fmt: skip
    examples = lw.TemplateExamples.of(twin.potentials, train)
    batches = examples.batch_indices(lw.learn.TotalSize(60), generator(3, 0, 0))
    assert len(batches) > 3
    for rows in batches:
        twin.zero_grad()
        for row in rows.tolist():
            (lw.learn.risk(twin, [train[row]], lw.loss.MSE()) / len(rows)).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for param in twin.parameters():
                param.sub_(0.5 * param.grad)  # type: ignore[operator]
    torch.testing.assert_close(weights(system), weights(twin), rtol=0, atol=1e-12)


def _scored(sentence: dict[str, Any]) -> bool:
    return any(tag >= 0 and role == OUTPUT for tag, role in zip(sentence["tags"], sentence["roles"], strict=True))


def test_full_batches_do_not_depend_on_how_they_are_cut() -> None:
    found = []
    for batch in (lw.learn.TotalSize(50), lw.learn.TotalSize(10**6)):
        system = fresh()
        lw.fit(system, TRAIN, lw.loss.F1(), optimizer=OPTIMISERS["L-BFGS"], epochs=2, batch=batch, progress=False)
        found.append(weights(system))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


GOALS: dict[str, Any] = {
    "F1": lw.loss.F1(),
    "clique": lw.loss.CliqueLikelihood(groups=["step"]),
    "likelihood": lw.loss.SurrogateLikelihood(),
    "truncated": lw.loss.TruncatedLikelihood(),
    "joint": lw.loss.SurrogateLikelihood(joint=True),
    "piecewise": lw.loss.Piecewise(),
    "stages": staged(hybrid(lw.loss.L1()), epochs=1),
}


@pytest.mark.parametrize("goal", GOALS)
def test_goals(goal: str) -> None:
    system = fresh(lw.decode.SoftArgmax(lw.decode.Geometric(1.0, 0.3, steps=3)))
    data = [sentence for sentence in TRAIN if len(sentence["words"]) > 1 and _paired(sentence)]
    before = lw.evaluate(system, data, lw.loss.L1())
    history = lw.fit(system, data, GOALS[goal], optimizer=adam, epochs=6, dev=DEV, measure=lw.metric.Accuracy(),
                     schedule=lw.optim.inverse_square_root, progress=False)  # fmt: skip
    assert history.best is not None
    assert lw.evaluate(system, data, lw.loss.L1()) < before


def _paired(sentence: dict[str, Any]) -> bool:
    """Whether two neighbours are both scored."""
    pairs = zip(sentence["tags"], sentence["roles"], strict=True)
    known = [tag >= 0 and role == OUTPUT for tag, role in pairs]
    return any(one and other for one, other in pairwise(known))


def test_pseudo_likelihood_of_complete_sentences() -> None:
    data = [{"words": sentence["words"], "tags": np.array(sentence["words"]) % 2} for sentence in TRAIN]
    system = fresh()
    history = lw.fit(system, data, lw.loss.PseudoLikelihood(), optimizer=adam, epochs=5, progress=False)
    assert history.losses[-1] < history.losses[0] and lw.evaluate(system, data, lw.metric.Accuracy()) == 1.0


@pytest.mark.parametrize("goal", [lw.loss.MSE(), lw.loss.TruncatedLikelihood()], ids=["MSE", "likelihood"])
def test_trees_are_trained(goal: Any) -> None:
    system = lw.System(Arcs(), FEW, lw.decode.Max())
    history = lw.fit(system, TREES, goal, optimizer=adam, epochs=8, progress=False)
    assert history.losses[-1] < history.losses[0]


def test_potentials_of_structured_factors_have_no_belief_gradient() -> None:
    system = lw.System(Arcs(), FEW)
    with pytest.raises(lw.learn.TrainingError, match=r"structured factors 'chain'.*use TruncatedLikelihood"):
        lw.fit(system, TREES, lw.loss.SurrogateLikelihood(), progress=False)


def test_hidden_variables_begin_at_random_weights() -> None:
    system = lw.System(SkipChain(scale=0.0), FEW)
    lw.fit(system, TRAIN, lw.loss.MSE(), optimizer=lambda p: torch.optim.SGD(p, lr=1e-9), epochs=1, progress=False)
    assert float(weights(system).std()) == pytest.approx(0.1, rel=0.5)


def test_restarts() -> None:
    system = lw.System(SkipChain(scale=0.0), FEW)
    history = lw.fit(system, TRAIN, lw.loss.MSE(), optimizer=adam, epochs=2, restarts=2, progress=False)
    assert [epoch.restart for epoch in history.epochs] == [0, 0, 1, 1]


def test_inference_is_trained_too() -> None:
    damped = lw.BP(iterations=3, tolerance=0, damping=nn.Parameter(torch.tensor(0.2, dtype=torch.float64)))
    system = fresh(inference=damped)
    lw.fit(system, TRAIN, lw.loss.MSE(), optimizer=adam, epochs=1, progress=False)
    assert float(damped.damping.detach()) != 0.2  # type: ignore[union-attr]


def test_single_precision_and_empty_sentences() -> None:
    system = fresh(lw.decode.SoftArgmax(0.5)).float()
    empty: dict[str, Any] = {"words": [], "tags": []}
    lw.fit(system, [*TRAIN, empty], lw.loss.L1(), optimizer=adam, epochs=2, dev=[empty, *DEV], progress=False)
    assert weights(system).dtype == torch.float32
    assert [len(answer) for answer in system.predict([empty, TRAIN[0], empty])] == [0, len(TRAIN[0]["words"]), 0]
    assert [tuple(rows.shape) for rows in system.predict_marginals([empty])] == [(0, 0)]
    both = lw.evaluate(system, [empty, TRAIN[0]], lw.loss.MSE(reduction=lw.loss.Pooled()))
    assert both == lw.evaluate(system, [TRAIN[0]], lw.loss.MSE())


def test_it_does_not_ask_for_anything_of_a_single_example_again() -> None:
    class Counted(SkipChain):
        asked = 0

        def prepare(self, sentence: dict[str, Any]) -> dict[str, Any]:
            self.asked += 1
            return super().prepare(sentence)

    template = Counted(scale=0.1)
    lw.fit(lw.System(template, FEW), TRAIN, lw.loss.MSE(), optimizer=adam, epochs=3, dev=DEV, progress=False)
    assert template.asked == len(TRAIN) + len(DEV)


# --- Checkpoints -----------------------------------------------------------------------------------------------------


class StopError(Exception):
    pass


RUNS: dict[str, dict[str, Any]] = {
    "SMD": {"goal": lw.loss.MSE(), "epochs": 3},
    "threshold, stages": {
        "goal": staged(lw.loss.F1(), epochs=1),
        "epochs": 3,
        "decoder": lw.decode.ApproximateF(temperature=lw.decode.Geometric(steps=2)),
        "optimizer": adam,
        "dev": DEV,
    },
    "L-BFGS": {"goal": lw.loss.SurrogateLikelihood(), "epochs": 3, "optimizer": lw.optim.LBFGS},
}


@pytest.mark.parametrize("run", RUNS)
def test_a_run_goes_on_bit_for_bit(run: str, tmp_path: Path) -> None:
    options = {"progress": False, **RUNS[run]}
    decoder, goal = options.pop("decoder", None), options.pop("goal")
    whole = fresh(decoder)
    history = lw.fit(whole, TRAIN, goal, **options)

    def stop(epoch: lw.learn.Epoch) -> None:
        if epoch.number == 2:
            raise StopError

    with pytest.raises(StopError):
        lw.fit(fresh(decoder), TRAIN, goal, checkpoint=tmp_path / "run", callback=stop, **options)
    resumed = fresh(decoder)
    again = lw.fit(resumed, TRAIN, goal, checkpoint=tmp_path / "run", **options)
    assert torch.equal(weights(resumed), weights(whole)) and again.losses == history.losses


def test_a_checkpoint_of_other_examples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    lw.fit(fresh(), TRAIN, lw.loss.MSE(), epochs=1, optimizer=adam, checkpoint=path, progress=False)
    linked = [{**TRAIN[0], "words": [0] * len(TRAIN[0]["words"])}, *TRAIN[1:]]  # the same values, another graph
    with pytest.raises(FormatError, match="another run: its training data was 40 examples"):
        lw.fit(fresh(), linked, lw.loss.MSE(), epochs=1, optimizer=adam, checkpoint=path, progress=False)
    other = lw.System(Arcs(), FEW)
    with pytest.raises(FormatError, match="another run: its graph was SkipChain"):
        lw.fit(other, TREES, lw.loss.MSE(), epochs=1, optimizer=adam, checkpoint=path, progress=False)


# --- Files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_saved_system_answers_as_before(name: str, tmp_path: Path) -> None:
    kind, examples = CASES[name]
    inference = lw.BP(iterations=3, tolerance=0, damping=nn.Parameter(torch.tensor(0.1, dtype=torch.float64)))
    system = lw.System(kind(), inference, lw.decode.ApproximateF())
    lw.fit(system, examples, lw.loss.MSE(), optimizer=lambda p: torch.optim.Adam(p, lr=0.01), epochs=2, progress=False)
    system.save(tmp_path / "system")
    for template in (kind, kind()):
        again = lw.System.load(tmp_path / "system", template=template)
        assert isinstance(again.potentials, kind)
        for one, other in zip(again.predict_marginals(examples), system.predict_marginals(examples), strict=True):
            assert torch.equal(one, other)
        assert [a.tolist() for a in again.predict(examples)] == [a.tolist() for a in system.predict(examples)]


def test_options_make_the_template_again(tmp_path: Path) -> None:
    system = lw.System(SkipChain(words=7, tags=3), FEW)
    system.save(tmp_path / "system")
    again = lw.System.load(tmp_path / "system", template=SkipChain)
    assert isinstance(again.potentials, SkipChain) and (again.potentials.words, again.potentials.tags) == (7, 3)
    assert torch.equal(weights(again), weights(system))


def test_precision_is_kept(tmp_path: Path) -> None:
    system = lw.System(SkipChain(), FEW).float()
    system.save(tmp_path / "system")
    again = lw.System.load(tmp_path / "system", template=SkipChain)
    assert weights(again).dtype == torch.float32
    for one, other in zip(again.predict_marginals(SENTENCES), system.predict_marginals(SENTENCES), strict=True):
        assert torch.equal(one, other)


def test_whole_numbers_are_saved_too(tmp_path: Path) -> None:
    class Kept(SkipChain):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.register_buffer("seen", torch.arange(3))

    template = Kept()
    template.get_buffer("seen").add_(5)
    lw.System(template, FEW).save(tmp_path / "system")
    again = lw.System.load(tmp_path / "system", template=Kept)
    assert again.potentials.get_buffer("seen").tolist() == [5, 6, 7]


def test_files_and_templates_that_do_not_fit(tmp_path: Path) -> None:
    path, plain = tmp_path / "system", tmp_path / "plain"
    lw.System(SkipChain(words=5), FEW).save(path)
    lw.System(lw.TablePotentials(lw.chain(2)), FEW).save(plain)

    class Awkward(SkipChain):
        def options(self) -> Any:
            return {"words": {1, 2}}

    for template, message in [
        (None, "the system in the file has the template SkipChain, and none is given: give its class"),
        (Arcs, "has the template SkipChain, and Arcs is given"),
        (SkipChain(words=4), r"the tensor 'potentials.emit' has shape \(5, 2\)|potentials.emit"),
    ]:
        with pytest.raises(FormatError, match=message):
            lw.System.load(path, template=template)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="has no template; leave template out"):
        lw.System.load(plain, template=SkipChain)
    with pytest.raises(ValueError, match=r"the options\(\) of Awkward cannot be saved as JSON"):
        lw.System(Awkward(), FEW).save(tmp_path / "awkward")
    tensors, description = read_container(path)
    for change, message in [
        ({"template": {"class": "SkipChain", "options": {"letters": 3}}}, "SkipChain cannot be made of the options"),
        ({"template": {"class": 3, "options": {}}}, "template.class"),
        ({"template": "SkipChain"}, "must be an object with fields"),
        ({"system": {}}, "inference' is not there"),
    ]:
        write_container(tmp_path / "bad", tensors, {**description, **change})
        with pytest.raises(FormatError, match=message):
            lw.System.load(tmp_path / "bad", template=SkipChain)
    broken = {**tensors, "potentials.emit": torch.full_like(tensors["potentials.emit"], torch.nan)}
    write_container(tmp_path / "nan", broken, description)
    with pytest.raises(FormatError, match=r"'potentials.emit' holds nan"):
        lw.System.load(tmp_path / "nan", template=SkipChain)


def test_a_likelihood_of_unseen_lengths_is_predicted() -> None:
    """Answers about sentences longer than any that was trained on."""
    system = fresh(lw.decode.Max())
    lw.fit(system, TRAIN, lw.loss.SurrogateLikelihood(), optimizer=adam, epochs=5, progress=False)
    words = [0, 1, 2, 3] * 5
    assert (system.predict([{"words": words}])[0].numpy() == np.array(words) % 2).mean() > 0.8
    assert len(SENTENCES) == len(system.predict(SENTENCES))
