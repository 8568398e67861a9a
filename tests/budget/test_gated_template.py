"""Budgets on templates: gates, stopping, costs, training, Pareto curves and files, on graphs of different shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.gated_template import GatedTemplate, WithoutGroups
from oracles.template_cases import SkipChain

SENTENCES = [
    {"words": [0, 1, 0, 2], "tags": [0, 1, 0, 1]},
    {"words": [3], "tags": [1]},
    {"words": [1, 1, 2], "tags": [1, 1, 0]},
    {"words": [0, 2, 3, 0, 2], "tags": [0, 1, 1, 0, 1]},
]
pytestmark = pytest.mark.filterwarnings("ignore::loopwise.notices.BudgetWarning")
METHOD = lw.BP(iterations=6, tolerance=0)


def policy(level: float = -1.0) -> budget.Policy:
    made = budget.Policy(
        [budget.Bias(), budget.LargestChange(), budget.MeanChange(), budget.Slowing(), budget.Entropy()]
    )
    made.weights.data.copy_(torch.tensor([level, -1.0, 0.1, 0.1, 0.05]))
    return made


def each_alone(system: lw.System) -> list[lw.Beliefs]:
    return [system.beliefs([sentence]) for sentence in SENTENCES]


class TestStopping:
    def test_each_example_stops_as_alone_whatever_the_batch(self) -> None:
        system = lw.System(SkipChain(scale=1.5), budget.Stopping(METHOD, policy()))
        with torch.no_grad():
            found, alone = system.beliefs(SENTENCES), each_alone(system)
        assert found.status.sweeps.tolist() == [int(each.status.sweeps) for each in alone]
        assert len(set(found.status.sweeps.tolist())) > 1
        torch.testing.assert_close(found.states, torch.cat([each.states for each in alone]), rtol=0, atol=1e-10)

    def test_the_scores_of_every_sweep_are_those_of_each_example(self) -> None:
        stopping = budget.Stopping(METHOD, policy())
        system = lw.System(SkipChain(scale=1.5), stopping)
        whole = system.examples(SENTENCES)
        run = stopping.every_sweep(whole.graph, system.tables(whole), whole.evidence)
        for number in range(len(SENTENCES)):
            part = whole[number]
            mine = stopping.every_sweep(part.graph, system.tables(part), part.evidence)
            torch.testing.assert_close(run.scores[:, number], mine.scores[:, 0], rtol=0, atol=1e-10)

    def test_training_loss_and_run_time_together_lowers_them(self) -> None:
        system = lw.System(SkipChain(scale=0.1), budget.Stopping(METHOD, budget.Policy(stops=0.3)))
        goal = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.05)
        before = lw.evaluate(budget.Budgeted(system), SENTENCES, goal)
        budget.fit(system, SENTENCES, lw.loss.MSE(), 0.05, epochs=15, batch=2, progress=False)
        assert lw.evaluate(budget.Budgeted(system), SENTENCES, goal) < before - 0.05

    def test_gradients_of_the_priced_loss_are_those_of_differences(self) -> None:
        template = SkipChain(scale=0.8)
        system = lw.System(template, budget.Stopping(METHOD, policy(-0.5)))
        goal = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.3)
        budgeted, part = budget.Budgeted(system), system.examples(SENTENCES)

        def value() -> torch.Tensor:
            return goal(part.by_example(budgeted(part)), part.targets)

        for weight in (template.step, system.inference.policy.weights):  # type: ignore[attr-defined]
            (slope,) = torch.autograd.grad(value(), weight)
            flat, step = weight.data.reshape(-1), 1e-6
            for place in range(len(flat)):
                sides = []
                for sign in (1, -1):
                    flat[place] += sign * step
                    sides.append(float(value().detach()))
                    flat[place] -= sign * step
                assert abs((sides[0] - sides[1]) / (2 * step) - float(slope.reshape(-1)[place])) < 1e-7

    def test_a_policy_alone_is_fitted(self) -> None:
        system = lw.System(SkipChain(scale=1.0), budget.Stopping(METHOD, budget.Policy()))
        dear = budget.fit_policy(system, SENTENCES, lw.loss.MSE(), 10.0, how=budget.PolicyFit(steps=60))
        found = system.beliefs(SENTENCES).status.sweeps
        assert found[[0, 2, 3]].tolist() == [1] * 3 and dear > 0  # the other one has no message to pay for


class TestCosts:
    def test_an_example_pays_for_its_own_factors_and_sweeps(self) -> None:
        system = lw.System(SkipChain(scale=1.5), lw.BP(iterations=40))
        spent = budget.spend(system, SENTENCES)
        alone = [budget.spend(system, [sentence]).cost for sentence in SENTENCES]
        assert spent.costs.tolist() == alone and spent.cost == np.mean(alone)
        assert alone[0] == 2 * (3 + 1) * int(system.beliefs([SENTENCES[0]]).status.sweeps)

    def test_structured_factors_cost_a_message_a_variable(self) -> None:
        graph = lw.FactorGraph([2] * 4, {"unary": [[0]], "pair": [[0, 1]]}, {"check": (lw.Parity(3), [1, 2, 3])})
        assert float(budget.MessageCost().sweep(graph)) == 5 and float(budget.CellCost().sweep(graph)) == 8 + 6


class TestGates:
    def test_a_gated_template_is_the_gated_graph_of_each_example(self) -> None:
        gate = budget.Gate(unit=0.5)
        template = SkipChain(scale=1.0)
        gated, part = GatedTemplate(template, gate), lw.TemplateExamples.of(template, SENTENCES)
        found = gated.fade(lw.TemplateExamples.of(gated, SENTENCES).batch)
        tables = template(part.batch)
        tables = {g.name: t if t.ndim > g.arity else t[None] for g in part.graph.groups for t in [tables[g.name]]}
        wanted = gate.fade(part.graph, tables, 1.0)
        for name, table in wanted.tables.items():
            torch.testing.assert_close(found.tables[name], table)
        assert found.present.keys() == {"step", "same"}

    def test_pruned_groups_are_gone_and_beliefs_stay(self) -> None:
        template = SkipChain(scale=1.0)
        template.link.data *= 1e-3
        system = lw.System(GatedTemplate(template, budget.Gate(unit=0.02)), METHOD).eval()
        small = budget.prune(system, SENTENCES)
        assert isinstance(small.potentials, WithoutGroups) and small.potentials.groups == ("same",)
        with torch.no_grad():
            torch.testing.assert_close(small.eval().beliefs(SENTENCES).states, system.beliefs(SENTENCES).states)
        assert budget.spend(small, SENTENCES).cost < budget.spend(system, SENTENCES).cost

    def test_a_price_prunes_what_says_nothing(self) -> None:
        template = SkipChain(scale=0.3)
        template.link.data *= 0.01
        system = lw.System(GatedTemplate(template, budget.Gate(unit=0.02)), METHOD)
        budget.fit(system, SENTENCES, lw.loss.MSE(), 0.3, epochs=10, batch=4, progress=False)
        assert "same" in budget.prune(system, SENTENCES).potentials.groups

    def test_mistakes_are_named(self) -> None:
        with pytest.raises(ValueError, match="GatedTemplate"):
            budget.Gated(SkipChain())
        with pytest.raises(ValueError, match="need a lw"):
            GatedTemplate(lw.TablePotentials(lw.chain(3)))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="give examples"):
            budget.prune(lw.System(GatedTemplate(SkipChain()), METHOD))


class TestPareto:
    def test_curves_of_a_template(self) -> None:
        system = lw.System(SkipChain(scale=0.8), lw.BP(iterations=4, tolerance=0))
        methods = [budget.FixedSweeps((1, 4)), budget.Learned(gate=None, features=[budget.Bias(), budget.SweepShare()])]
        found = budget.pareto(
            system, SENTENCES, lw.loss.MSE(), [1e-3, 10.0], methods=methods, epochs=2, batch=4, progress=False
        )
        assert [len(found.of(name)) for name in found.methods] == [1, 2, 2]
        assert found.of("learned stopping")[-1].sweeps == 1
        fixed = found.of("fixed sweeps")
        assert fixed[0].cost * 4 == pytest.approx(fixed[1].cost)
        gated = budget.pareto(
            system, SENTENCES, lw.loss.MSE(), [5.0], methods=[budget.Learned()], epochs=3, batch=4, progress=False
        )
        assert gated.of("learned sparsity")[0].cost <= gated.of("dense")[0].cost


class TestFiles:
    def test_a_stopping_system_of_a_template_comes_back(self, tmp_path: Path) -> None:
        system = lw.System(SkipChain(scale=1.0), budget.Stopping(METHOD, policy()))
        budget.save(system, tmp_path / "it")
        again = budget.load(tmp_path / "it", template=SkipChain)
        assert again.beliefs(SENTENCES).status.sweeps.tolist() == system.beliefs(SENTENCES).status.sweeps.tolist()

    def test_a_rule_with_a_policy_is_saved_with_the_system(self, tmp_path: Path) -> None:
        stop = lw.inference.AnyOf(budget.StopByPolicy(policy()), lw.inference.Tolerance(1e-5))
        for system, load in (
            (lw.System(SkipChain(scale=1.0), lw.BP(iterations=9, stop=stop)), {"template": SkipChain}),
            (lw.System(lw.TablePotentials.random(lw.grid(3, 3), seed=0), lw.BP(iterations=9, stop=stop)), {}),
        ):
            system.save(tmp_path / "it")
            again = lw.System.load(tmp_path / "it", **load)  # type: ignore[arg-type]
            rule = again.inference.stop.each[0]  # type: ignore[attr-defined]
            assert isinstance(rule, budget.StopByPolicy)
            assert torch.equal(rule.policy.weights, policy().weights)
            assert [type(each) for each in rule.policy.features] == [type(each) for each in policy().features]
            given = SENTENCES if load else None
            assert torch.equal(again.beliefs(given).states, system.beliefs(given).states)
