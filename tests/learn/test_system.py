"""Systems: beliefs, decisions, parameters, prediction in chunks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import loopwise as lw
from loopwise.decode.base import BeliefDecoder
from loopwise.formats.table import Vocabulary
from loopwise.learn import Examples, System, risk
from loopwise.potentials.features import Features
from loopwise.potentials.neural import NeuralPotentials
from loopwise.potentials.sparse import SparsePotentials
from oracles.enumeration import enumerate_model

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
FEW = lw.BP(iterations=3, tolerance=0)


def loopy(seed: int = 0, count: int = 23) -> tuple[lw.TablePotentials, Examples]:
    """A small loopy model and examples whose roles differ."""
    graph = lw.random_mrf(7, 11, seed=seed, unary=True)
    rng = np.random.default_rng(seed)
    roles = rng.integers(0, 3, (4, 7))[rng.integers(0, 4, count)]
    roles[:, 0] = OUTPUT
    return lw.TablePotentials.random(graph, seed=seed), Examples.of(graph, rng.integers(0, 2, (count, 7)), roles)


def test_answers_are_those_of_exact_inference() -> None:
    graph = lw.FactorGraph([2, 3, 2], {"pair": [[0, 1]], "other": [[1, 2]], "ring": [[0, 2]]})
    potentials = lw.TablePotentials.random(graph, seed=3)
    system = System(potentials, lw.Exact(), lw.decode.Max())
    free = {name: table.detach().numpy() for name, table in potentials().items()}
    known = enumerate_model(graph, free)
    marginals = system.predict_marginals()
    assert marginals.shape == (3, 3)
    for variable, expected in enumerate(known.variables):
        assert np.allclose(marginals[variable, : len(expected)], expected, atol=1e-12)
        assert (marginals[variable, len(expected) :] == 0).all()
    chosen = known.configurations[:, 1] == 2
    weights = known.probabilities * chosen
    best = [np.bincount(known.configurations[:, v], weights).argmax() for v in range(3)]
    assert system.predict({1: 2}).tolist() == best
    assert system.predict([[-1, 2, -1]] * 3).tolist() == [best] * 3
    assert system.predict(np.full((2, 2, 3), -1)).shape == (2, 2, 3)


def test_an_answer_does_not_depend_on_the_others() -> None:
    potentials, examples = loopy()
    system = System(potentials, FEW, lw.decode.SoftArgmax())
    alone = torch.cat([system.decide(one).assignment for one in examples])
    marginals = torch.cat([system.beliefs(one).variables for one in examples]).detach()
    for batch in (1, 4, 100):
        assert torch.equal(system.predict(examples, batch=batch), alone)
        assert torch.allclose(system.predict_marginals(examples, batch=batch), marginals, atol=1e-13)
    assert torch.equal(system.predict(examples.evidence), alone)
    inputs = torch.from_numpy(examples.known_roles == INPUT)
    assert torch.equal(alone[inputs], torch.from_numpy(examples.values)[inputs])
    mixed = system.predict_marginals(examples, by_pattern=False)  # one call: clamped variables lag by a sweep
    assert mixed.shape == marginals.shape and not torch.allclose(mixed, marginals, atol=1e-6)


def test_training_is_soft_and_testing_hard() -> None:
    potentials, examples = loopy()
    examples = examples[:1]
    system = System(potentials, FEW, lw.decode.SoftArgmax(lw.decode.Listed((1.0, 0.25))))
    soft, later, hard = system(examples), system(examples, step=1), system.decide(examples)
    assert not soft.hard and soft.states.requires_grad
    assert hard.hard and not hard.states.requires_grad
    assert torch.equal(soft.states, lw.decode.SoftArgmax(1.0)(system.beliefs(examples)).states)
    assert torch.equal(later.states, lw.decode.SoftArgmax(0.25)(system.beliefs(examples)).states)
    lw.loss.MSE()(soft, examples.targets).backward()
    assert all(parameter.grad is not None for parameter in system.parameters())


@pytest.mark.parametrize("goal", [lw.loss.MSE(), lw.loss.SurrogateLikelihood()])
def test_risk_is_what_training_minimises(goal: lw.loss.Loss | lw.loss.LikelihoodObjective) -> None:
    potentials, examples = loopy()
    examples = examples[:5]
    system = System(potentials, FEW, lw.decode.SoftArgmax(0.5))
    if isinstance(goal, lw.loss.LikelihoodObjective):
        expected = goal(FEW, potentials.graph, potentials, examples.evidence)
    else:
        beliefs = FEW(potentials.graph, potentials, examples.evidence)
        expected = goal(lw.decode.SoftArgmax(0.5)(beliefs), examples.evidence)
    value = risk(system, examples, goal)
    assert torch.allclose(value, expected, atol=1e-14) and value.requires_grad


def test_parameters_of_inference_and_decoder_are_the_system_s() -> None:
    graph = lw.chain(3)
    damping, rho = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    inference = lw.BP(iterations=4, tolerance=0, damping=damping, counting=lw.inference.Reweighted({"pair": rho}))
    system = System(lw.TablePotentials.random(graph, seed=0), inference, lw.decode.SoftArgmax(lw.decode.Trained(0.8)))
    named = dict(system.named_parameters())
    assert named["settings.inference/damping"] is damping
    assert named["settings.inference/counting/rho/pair"] is rho
    assert "decoder.temperature.log_temperature" in named
    examples = Examples.of(graph, [[0, 1, 1]], [INPUT, HIDDEN, OUTPUT])
    risk(system, examples, lw.loss.MSE()).backward()
    moved = [name for name, parameter in named.items() if parameter.grad is not None and parameter.grad.abs().max() > 0]
    assert {"settings.inference/damping", "decoder.temperature.log_temperature"} <= set(moved)
    before = system.predict_marginals(examples)
    torch.optim.SGD(system.parameters(), lr=0.5).step()
    assert inference.damping is damping and float(damping.detach()) != 0.3  # the option itself moved
    assert not torch.equal(before, system.predict_marginals(examples))


def test_a_copy_is_complete_and_apart() -> None:
    damping = nn.Parameter(torch.tensor(0.3))
    system = System(lw.TablePotentials(lw.chain(3)), lw.BP(damping=damping), lw.decode.Max())
    twin = copy.deepcopy(system)
    inner = twin.inference
    assert isinstance(inner, lw.BP) and inner.damping is dict(twin.named_parameters())["settings.inference/damping"]
    assert inner.damping is not damping


def test_parameters_within_a_decoder_that_is_no_module() -> None:
    soft = lw.decode.SoftArgmax(lw.decode.Trained())
    system = System(lw.TablePotentials(lw.chain(2)), lw.BP(), lw.decode.Max(training=soft))
    assert [name for name, _ in system.named_parameters() if "temperature" in name] == [
        "settings.decoder/training.temperature.log_temperature"
    ]


def test_a_tensor_that_no_optimiser_could_change_is_refused() -> None:
    with pytest.raises(ValueError, match=r"inference/damping is a tensor that wants a gradient.*torch.nn.Parameter"):
        System(lw.TablePotentials(lw.chain(2)), lw.BP(damping=torch.tensor(0.1, requires_grad=True)))


def test_neural_potentials_see_the_inputs_of_each_example() -> None:
    graph = lw.chain(3)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Unflatten(-1, (3, 2))).double()
    potentials = NeuralPotentials(graph, {"unary": net, "pair": torch.randn(2, 2, dtype=torch.float64)})
    x = torch.randn(9, 5, dtype=torch.float64)
    values = np.random.default_rng(0).integers(0, 2, (9, 3))
    examples = Examples.of(graph, values, [INPUT, OUTPUT, OUTPUT], input=x)
    system = System(potentials, lw.Exact(), lw.decode.Max())
    answers = system.predict(examples, batch=4)
    assert system.training and net.training  # back in the mode they were in
    net.eval()
    for row in range(9):
        beliefs = lw.Exact()(graph, potentials(x[row]), {0: int(values[row, 0])})
        assert answers[row].tolist() == beliefs.assignment.tolist()
    free = system.predict(None, inputs={"input": x}, batch=2)
    assert free.shape == (9, 3)
    assert free[4].tolist() == lw.Exact()(graph, potentials(x[4])).assignment.tolist()
    with pytest.raises(ValueError, match="input input has 9 rows for 2 examples"):
        system.predict([[0, -1, -1]] * 2, inputs={"input": x})


def test_sparse_potentials_take_the_graph_from_the_system() -> None:
    graph = lw.chain(2)
    potentials = SparsePotentials.of(graph, {"unary": 4, "pair": 1})
    with torch.no_grad():
        for weight in potentials.weights:
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=weight.dtype))
    system = System(potentials, lw.Exact(), lw.decode.Max(), graph=graph)
    features = Features.of_table(np.array([[0], [1], [2], [3], [3], [3]]), batch=(3,))
    examples = Examples.of(graph, np.zeros((3, 2), int), [OUTPUT, OUTPUT], features={"unary": features})
    expected = lw.Exact()(graph, potentials({"unary": features})).assignment
    assert torch.equal(system.predict(examples, batch=2), expected)
    with pytest.raises(ValueError, match="SparsePotentials do not say what graph"):
        System(SparsePotentials(potentials.groups), lw.Exact())


def test_refresh_shows_the_decoder_the_corpus() -> None:
    potentials, examples = loopy(count=12)
    decoder = lw.decode.ApproximateF()
    system = System(potentials, FEW, decoder)
    with pytest.raises(ValueError, match="not known yet"):
        system.predict(examples)
    system.refresh(examples, batch=5)
    marginals = system.predict_marginals(examples)[..., 1][examples.outputs]
    assert isinstance(decoder.threshold, lw.decode.PerCorpus)
    assert torch.allclose(decoder.threshold.kappa, marginals.quantile(0.5), atol=1e-14)
    expected = (system.predict_marginals(examples)[..., 1] > decoder.threshold.kappa).long()
    assert torch.equal(system.predict(examples)[examples.outputs], expected[examples.outputs])


def test_outputs_are_declared_even_if_their_values_are_not_known() -> None:
    potentials, examples = loopy(count=6)
    blank = np.where(examples.roles == OUTPUT, -1, examples.values)
    unknown = Examples.of(examples.graph, blank, examples.roles)
    system = System(potentials, FEW, lw.decode.ApproximateF(lw.decode.PerExample()))
    assert not unknown.scored
    assert torch.equal(system.predict(unknown), system.predict(examples))


def test_roles_of_the_system_serve_evidence_without_any() -> None:
    potentials, _ = loopy()
    roles = [INPUT, OUTPUT, OUTPUT, OUTPUT, HIDDEN, HIDDEN, HIDDEN]
    values = np.array([[1, -1, -1, -1, -1, -1, -1], [-1] * 7])
    decoder = lw.decode.ApproximateF(lw.decode.PerExample())
    system = System(potentials, FEW, decoder, roles=roles)
    expected = System(potentials, FEW, decoder).predict(Examples.of(potentials.graph, values, roles))
    assert torch.equal(system.predict(values), expected)
    assert torch.equal(system.decide(values[0]).assignment, expected[0])
    share = expected[:, 1:4].sum(-1)
    assert ((share == 1) | (share == 2)).all()  # about half of the outputs, not of all that is free


def test_systems_travel_to_other_processes() -> None:
    potentials, examples = loopy()
    system = System(potentials, lw.BP(iterations=3, tolerance=0, damping=nn.Parameter(torch.tensor(0.2))))
    twin = pickle.loads(pickle.dumps(system))
    assert torch.equal(twin.predict_marginals(examples), system.predict_marginals(examples))
    assert twin.inference.damping is dict(twin.named_parameters())["settings.inference/damping"]


def test_bad_systems() -> None:
    potentials = lw.TablePotentials(lw.chain(2))
    with pytest.raises(ValueError, match="potentials of a system must be a torch module"):
        System({"unary": 0}, lw.BP())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="inference of a system must be an inference method, such as"):
        System(potentials, lw.decode.Max())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="decoder of a system must be a decoder"):
        System(potentials, lw.BP(), lw.loss.MSE())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="vocabulary of 1 variables does not fit 2"):
        System(potentials, lw.BP(), vocabulary=Vocabulary(("a",), (("0",),)))
    with pytest.raises(ValueError, match="'b' has 3 labels, but 2 values"):
        System(potentials, lw.BP(), vocabulary=Vocabulary(("a", "b"), (("0",), ("0", "1", "2"))))
    with pytest.raises(ValueError, match=r"roles of shape \(1,\) must be \[variables\], of 2 variables"):
        System(potentials, lw.BP(), roles=[OUTPUT])
    system = System(potentials, lw.BP())
    assert isinstance(system.decoder, BeliefDecoder)
    with pytest.raises(ValueError, match=r"the examples are over .*3 variables.*the system is over"):
        system.predict(Examples.of(lw.chain(3), [[0, 0, 0]], [0, 1, 1]))
    with pytest.raises(ValueError, match="no examples"):
        system.predict(Examples.of(lw.chain(2), np.zeros((0, 2), int), [0, 1]))
