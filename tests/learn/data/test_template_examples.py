"""Systems with a template: a union answers as its examples do one by one, and as enumeration says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference import Inference
from loopwise.loss.reduction import Each, Pooled
from oracles.template_cases import (
    CASES,
    HIDDEN,
    INPUT,
    MIXED,
    OUTPUT,
    SENTENCES,
    TREES,
    Arcs,
    Parts,
    SkipChain,
    enumerated,
    likelihood,
)

SWEEPS = lw.BP(iterations=4, tolerance=0)


def system_of(name: str, inference: Inference = SWEEPS, decoder: lw.decode.BeliefDecoder | None = None) -> lw.System:
    return lw.System(CASES[name][0](), inference, decoder)


def examples_of(name: str) -> list[Any]:
    return CASES[name][1]


# --- Against enumeration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_marginals_are_those_of_enumeration(name: str) -> None:
    system, examples = system_of(name, lw.Exact()), examples_of(name)
    for example, marginals in zip(examples, system.predict_marginals(examples), strict=True):
        truth = enumerated(system.potentials, example)
        assert len(marginals) == len(truth.variables)
        for row, wanted in zip(marginals, truth.variables, strict=True):
            assert np.allclose(row[: len(wanted)], wanted, atol=1e-12)


@pytest.mark.parametrize("objective", [lw.loss.SurrogateLikelihood(), lw.loss.TruncatedLikelihood()])
@pytest.mark.parametrize("name", CASES)
def test_likelihoods_are_those_of_enumeration(name: str, objective: lw.loss.LikelihoodObjective) -> None:
    system, examples = system_of(name, lw.Exact()), examples_of(name)
    with torch.no_grad():
        each = lw.learn.score_examples(system, examples, objective)
        truth = [likelihood(system.potentials, example) for example in examples]
        assert np.allclose(each, truth, atol=1e-10)
        assert lw.evaluate(system, examples, objective) == pytest.approx(np.mean(truth), abs=1e-10)
        assert float(lw.learn.risk(system, examples, objective)) == pytest.approx(np.mean(truth), abs=1e-10)


@pytest.mark.parametrize("goal", [lw.loss.MSE(), lw.loss.TruncatedLikelihood()], ids=["MSE", "likelihood"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_enumeration(name: str, goal: Any) -> None:
    """Central differences of the loss that enumeration gives, in every weight."""
    system, examples = system_of(name, lw.Exact()), examples_of(name)
    template = system.potentials
    assert isinstance(template, lw.Template)
    lw.learn.risk(system, examples, goal).backward()  # type: ignore[no-untyped-call]
    for weights in template.parameters():
        flat, slope = weights.data.reshape(-1), torch.zeros_like(weights) if weights.grad is None else weights.grad
        for place in range(len(flat)):
            kept, sides = float(flat[place]), []
            for step in (1e-5, -1e-5):
                flat[place] = kept + step
                sides.append(_enumerated_loss(template, examples, goal))
            flat[place] = kept
            assert float(slope.reshape(-1)[place]) == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


def _enumerated_loss(template: lw.Template, examples: list[Any], goal: Any) -> float:
    if isinstance(goal, lw.loss.LikelihoodObjective):
        return float(np.mean([likelihood(template, example) for example in examples]))
    losses = []
    for example in examples:
        single = lw.TemplateExamples.of(template, [example])
        gold, truth = single.evidence.clamp((OUTPUT,)), enumerated(template, example)
        scored = [(truth.variables[place], value) for place, value in enumerate(gold) if value >= 0]
        if scored:
            losses.append(np.mean([((p - np.eye(len(p))[y]) ** 2).sum() / 2 for p, y in scored]))
    return float(np.mean(losses))


# --- A union against its examples one by one -------------------------------------------------------------------------

METHODS: dict[str, Inference] = {
    "flooding": SWEEPS,
    "sequential": lw.BP(iterations=2, tolerance=0, schedule=lw.Sequential()),
    "damped": lw.BP(iterations=3, tolerance=0, damping=0.3),
    "reference": lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference()),
    "trw": lw.TRW(iterations=3, tolerance=0),
    "trw by sampled trees": lw.TRW(iterations=3, tolerance=0, rho=lw.inference.SpanningTrees(exact_limit=2)),
    "max-product": lw.BP(iterations=4, tolerance=0, temperature=0.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_beliefs_after_so_many_sweeps_do_not_depend_on_the_others(name: str, method: str) -> None:
    if name == "trees" and method == "max-product":
        pytest.skip("max-product has no messages of structured factors")
    system, examples = system_of(name, METHODS[method]), examples_of(name)
    together = system.predict_marginals(examples)
    apart = [system.predict_marginals([example])[0] for example in examples]
    cut = system.predict_marginals(examples, batch=2)
    for one, other, third in zip(together, apart, cut, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        torch.testing.assert_close(third, other, rtol=0, atol=1e-12)


def test_a_graph_with_and_without_a_cycle_in_one_sequential_union() -> None:
    """Each part is visited in the order that it would be visited in alone."""
    rng = np.random.default_rng(3)
    rings = [{"words": rng.integers(0, kinds, count)} for count, kinds in [(8, 3), (6, 40), (9, 2), (1, 1), (7, 4)]]
    system = lw.System(SkipChain(words=40), lw.BP(iterations=1, tolerance=0, schedule=lw.Sequential()))
    together = system.predict_marginals(rings)
    for ring, found in zip(rings, together, strict=True):
        torch.testing.assert_close(found, system.predict_marginals([ring])[0], rtol=0, atol=1e-12)


def test_with_a_tolerance_a_union_differs_by_less_than_it() -> None:
    system = system_of("skip chain", lw.BP(tolerance=1e-6))
    for example, found in zip(SENTENCES, system.predict_marginals(SENTENCES), strict=True):
        torch.testing.assert_close(found, system.predict_marginals([example])[0], rtol=0, atol=1e-5)


DECODERS: dict[str, lw.decode.BeliefDecoder] = {
    "identity": lw.decode.Identity(),
    "max": lw.decode.Max(),
    "soft": lw.decode.SoftArgmax(0.5),
    "trained": lw.decode.SoftArgmax(lw.decode.Trained()),
    "votes": lw.decode.FactorVote(),
    "fixed": lw.decode.ApproximateF(lw.decode.Fixed(0.4)),
    "corpus": lw.decode.ApproximateF(),
    "median": lw.decode.ApproximateF(lw.decode.PerExample()),
    "least loss": lw.decode.ApproximateF(lw.decode.LeastExpectedLoss(lw.decode.Independent(), count=1)),
    "votes of a threshold": lw.decode.FactorVote(lw.decode.ApproximateF(lw.decode.PerExample())),
}


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("name", ["skip chain", "mixed"])
def test_decisions_do_not_depend_on_the_others(name: str, decoder: str) -> None:
    system, examples = system_of(name, SWEEPS, DECODERS[decoder]), examples_of(name)
    system.refresh(examples)
    if decoder == "least loss":  # its samples are of the whole batch: which is right is checked below
        assert [len(answer) for answer in system.predict(examples)] == [
            len(lw.TemplateExamples.of(system.potentials, [example]).values[0]) for example in examples
        ]
        return
    single = [system.predict([example])[0] for example in examples]
    for one, other in zip(system.predict(examples), single, strict=True):
        assert torch.equal(one, other)
    if decoder != "votes of a threshold":  # whose soft form there is not
        whole = system(examples)
        flat = torch.cat([system([example]).states for example in examples])
        torch.testing.assert_close(whole.states, flat, rtol=0, atol=1e-12)


def test_soft_votes_of_a_threshold_are_refused() -> None:
    system = system_of("skip chain", SWEEPS, DECODERS["votes of a threshold"])
    with pytest.raises(ValueError, match=r"no (soft )?decision on the factors"):
        system(SENTENCES)


@pytest.mark.parametrize("name", ["skip chain", "mixed"])
def test_least_expected_loss_is_taken_example_by_example(name: str) -> None:
    """With exact samples of many, each example's answer is that of least expected loss by enumeration."""
    counted = 4000
    loss = lw.metric.HammingError(reduction=Each())
    system = system_of(name, lw.Exact(), lw.decode.MBR(loss, count=counted, candidates=20))
    examples = [example for example in examples_of(name) if "roles" not in example]
    answers = system.predict(examples)
    for example, answer in zip(examples, answers, strict=True):
        truth = enumerated(system.potentials, example)
        risks = [(truth.probabilities[:, None] * (truth.configurations != guess)).sum() for guess in [answer.numpy()]]
        best = min((truth.probabilities[:, None] * (truth.configurations != c)).sum() for c in truth.configurations)
        assert risks[0] <= best + 4 / math.sqrt(counted) * len(answer)


MEASURES: dict[str, Any] = {
    "MSE": lw.loss.MSE(),
    "L1": lw.loss.L1(),
    "summed L1": lw.loss.L1(normalise=False),
    "Hamming by value": lw.loss.Hamming(weights=[1.0, 2.0, 0.5]),
    "likelihood of variables": lw.loss.UnivariateLikelihood(),
    "smooth error": lw.loss.SmoothError(),
    "quadratic": lw.loss.UnivariateQuadratic(),
    "F1": lw.loss.F1(),
    "pooled F": lw.loss.FBeta(beta=2.0, reduction=Pooled()),
    "hybrid": lw.loss.Interpolated(lw.loss.F1(), weight=0.5),
    "on beliefs": lw.loss.OnBeliefs(lw.loss.MSE()),
    "accuracy": lw.metric.Accuracy(),
    "pooled accuracy": lw.metric.Accuracy(reduction=Pooled()),
    "correct": lw.metric.Correct(),
    "metric F1": lw.metric.F1Score(reduction=Pooled()),
    "F1 of values": lw.metric.ValueF1(values=[0, 1]),
    "entities": lw.metric.EntityF1Score(tags=["O", "B-x", "I-x"], reduction=Pooled()),
    "clusters": lw.metric.BCubed(),
    "pairs": lw.metric.PairwiseF1(reduction=Pooled()),
}
ON_FACTORS: dict[str, Any] = {
    "clique": lw.loss.CliqueLikelihood(reduction=Pooled()),
    "clique error": lw.loss.SmoothCliqueError(),
    "clique quadratic": lw.loss.CliqueQuadratic(),
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", ["skip chain", "mixed"])
def test_statistics_are_those_of_each_example(name: str, measure: str) -> None:
    system, examples, goal = system_of(name), examples_of(name), MEASURES[measure]
    each = [lw.TemplateExamples.of(system.potentials, [example]) for example in examples]
    rows = [
        goal.statistics(one.by_example(system.decide(one)), one.targets)
        if one.scored
        else torch.zeros(1, goal.columns, dtype=torch.float64)
        for one in each
    ]
    wanted = float(goal.combine(torch.cat(rows)))
    for batch in (None, 2, lw.learn.TotalSize(30)):
        assert lw.evaluate(system, examples, goal, batch=batch) == pytest.approx(wanted, abs=1e-12)
    scores = lw.learn.score_examples(system, examples, goal)
    assert torch.allclose(scores, torch.cat([Each()(goal, row) for row in rows]), atol=1e-12)


@pytest.mark.parametrize("measure", ON_FACTORS)
@pytest.mark.parametrize("name", ["skip chain", "mixed"])
def test_losses_on_factors_are_those_of_each_example(name: str, measure: str) -> None:
    goal = ON_FACTORS[measure]
    system = system_of(name)
    graphs = [example for example in examples_of(name) if len(example.get("tags", example.get("sizes"))) == 3]
    examples = [*graphs, *graphs[:1]]
    rows = []
    for example in examples:
        one = lw.TemplateExamples.of(system.potentials, [example])
        rows.append(goal.statistics(one.by_example(system.decide(one)), one.targets))
    assert lw.evaluate(system, examples, goal) == pytest.approx(float(goal.combine(torch.cat(rows))), abs=1e-12)
    plain = lw.System(_frozen(system, examples[0]), SWEEPS)  # the same of a system of one graph
    single = lw.TemplateExamples.of(system.potentials, examples[:1])
    ones = lw.Examples.of(single.graph, single.values[0][None], single.roles[0])
    assert lw.evaluate(plain, ones, goal) == pytest.approx(lw.evaluate(system, examples[:1], goal), abs=1e-12)


def _frozen(system: lw.System, example: Any) -> lw.TablePotentials:
    one = lw.TemplateExamples.of(system.potentials, [example])
    return lw.TablePotentials(one.graph, {name: table.detach() for name, table in system.tables(one).items()})


@pytest.mark.parametrize("name", ["skip chain", "mixed"])
def test_one_graph_is_a_special_case(name: str) -> None:
    """The same example through a template and through a system of one graph: all that is asked of both."""
    system = system_of(name, SWEEPS, lw.decode.ApproximateF(lw.decode.PerExample()))
    example = examples_of(name)[0]
    one = lw.TemplateExamples.of(system.potentials, [example])
    plain = lw.System(_frozen(system, example), SWEEPS, system.decoder)
    examples = lw.Examples.of(one.graph, one.values[0][None], one.roles[0])
    assert torch.equal(system.predict([example])[0], plain.predict(examples)[0])
    for goal in (lw.loss.F1(), lw.loss.MSE(), lw.loss.SurrogateLikelihood(), lw.loss.PseudoLikelihood()):
        mine, theirs = lw.learn.risk(system, one, goal).detach(), lw.learn.risk(plain, examples, goal).detach()
        assert float(mine) == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("objective", [lw.loss.PseudoLikelihood(), lw.loss.Piecewise(), lw.loss.Piecewise(joint=True)])
def test_objectives_without_inference_add_up(objective: lw.loss.LikelihoodObjective) -> None:
    system, examples = system_of("skip chain"), SENTENCES[:2]
    each = [float(lw.learn.risk(system, [example], objective).detach()) for example in examples]
    assert float(lw.learn.risk(system, examples, objective).detach()) == pytest.approx(np.mean(each), abs=1e-12)
    assert torch.allclose(lw.learn.score_examples(system, examples, objective), torch.tensor(each).double(), atol=1e-6)


def test_hessian_vector_products_are_those_of_the_sum() -> None:
    system = system_of("skip chain", SWEEPS, lw.decode.SoftArgmax(0.5))
    params = list(system.parameters())
    direction = [torch.ones_like(param) for param in params]
    chosen = [SENTENCES[0], SENTENCES[2]]

    def product(examples: list[Any]) -> list[torch.Tensor]:
        return list(lw.hvp(lambda: lw.learn.risk(system, examples, lw.loss.MSE()), params, direction))

    together = product(chosen)
    apart = [product([example]) for example in chosen]
    for whole, *parts in zip(together, *apart, strict=True):
        torch.testing.assert_close(whole, sum(parts) / 2, rtol=0, atol=1e-10)


# --- Roles, batches, bad input ---------------------------------------------------------------------------------------


def test_inputs_keep_their_values_and_hidden_variables_are_not_scored() -> None:
    system = system_of("skip chain", SWEEPS, lw.decode.Max())
    examples = lw.TemplateExamples.of(system.potentials, SENTENCES)
    assert system.predict(SENTENCES)[4][2] == 0  # an input
    assert examples.targets.scored.tolist()[4] == [True, False, False, True]
    assert examples.targets.scored.tolist()[2] == [True, True, False, True]
    assert examples.having((HIDDEN,)).tolist() == [False, False, False, False, True]
    assert examples.having((INPUT,)).tolist() == [False, False, False, True, True]
    assert examples[[4, 1]].numbers.tolist() == [4, 1] and len(list(examples)) == 5


def test_rows_keep_the_values_of_each_variable() -> None:
    examples = lw.TemplateExamples.of(Parts(), MIXED)
    rows = examples.union.side_by_side
    assert rows.graph.cardinalities.tolist() == [2, 2, 3, 3, 3]
    assert examples.targets.values is not None
    assert examples.targets.values.tolist() == [
        [1, 0, 2, -1, -1],
        [1, -1, 0, 1, -1],
        [1, 0, -1, -1, -1],
        [-1, -1, 2, -1, -1],
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": [0]}, r"values of example 1 have shape \(1,\), and its graph has 3 variables"),
        ({"tags": [0, 2, 1]}, "example 1 gives variable 1 the value 2; it has values 0 to 1, and -1 if it is missing"),
        ({"tags": [0.0, 1.0, 1.0]}, "the values of example 1 must be integers, not float64"),
        ({"roles": [OUTPUT]}, r"example 1: roles of shape \(1,\)"),
        ({"roles": [0, 1, 7]}, "example 1: the role of variable 2 is 7"),
    ],
)
def test_values_and_roles_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    system = system_of("skip chain")
    with pytest.raises(ValueError, match=message):
        system.predict([SENTENCES[0], {**SENTENCES[0], **change}])


def test_what_is_no_list_of_examples() -> None:
    system = system_of("skip chain")
    other = lw.TemplateExamples.of(Arcs(), TREES)
    plain = lw.System(lw.TablePotentials(lw.chain(3)), SWEEPS)
    for given, message in [
        (None, "a list of examples of SkipChain is wanted, not NoneType"),
        (SENTENCES[0], "a list of examples of SkipChain is wanted, not dict"),
        (
            lw.Examples.of(lw.chain(2), [[0, 1]], [OUTPUT] * 2),
            "a list of examples of SkipChain is wanted, not Examples",
        ),
        ([], "there are no examples"),
        (other, "made for another template, Arcs instead of SkipChain"),
        (lw.TemplateExamples.of(SkipChain(), SENTENCES), "an object of SkipChain that is not the system's"),
    ]:
        with pytest.raises(ValueError, match=message):
            system.predict(given)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="there are no examples to train on"):
        lw.fit(system, [], lw.loss.MSE())
    with pytest.raises(ValueError, match="there are no examples to evaluate on"):
        lw.evaluate(system, [], lw.loss.MSE())
    with pytest.raises(ValueError, match="of the template Arcs, and the system has none"):
        plain.predict(other)
    with pytest.raises(ValueError, match="examples of SkipChain have a graph each"):
        _ = system.graph
    with pytest.raises(ValueError, match="roles is about one graph"):
        lw.System(SkipChain(), SWEEPS, roles=[1])
    with pytest.raises(ValueError, match="give one for each value, of which there are up to 2"):
        lw.evaluate(system, SENTENCES, lw.loss.Hamming(weights=[1.0]))


def test_whatever_gives_examples_is_a_list() -> None:
    system = system_of("skip chain")
    listed = [answer.tolist() for answer in system.predict(SENTENCES)]
    for given in (tuple(SENTENCES), iter(SENTENCES), np.array(SENTENCES)):
        assert [answer.tolist() for answer in system.predict(given)] == listed


def test_an_impossible_example_is_named() -> None:
    class Forbidding(SkipChain):
        def potentials(self, batch: lw.potentials.TemplateBatch) -> dict[str, torch.Tensor]:
            never = torch.tensor([[-torch.inf, 0.0], [0.0, 0.0]], dtype=torch.float64)
            return {**super().potentials(batch), "same": never}

    bad = {"words": [1, 1], "tags": [0, 0], "roles": [INPUT, INPUT]}
    system = lw.System(Forbidding(), SWEEPS)
    with pytest.raises(
        lw.notices.ImpossibleError, match=r"example 1: impossible evidence: factor 0 of group 'same' .* \[0, 1\]"
    ):
        system.predict([SENTENCES[0], bad, SENTENCES[1]])
    gold = {**bad, "roles": OUTPUT}
    with pytest.raises(lw.notices.ImpossibleError, match="example 1: impossible evidence"):
        lw.learn.risk(system, [SENTENCES[1], gold], lw.loss.SurrogateLikelihood())
