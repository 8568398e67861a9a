"""Inference among torch's own tools: torch.compile, torch.func, autocast, narrow types, data loaders, copies."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap

import loopwise as lw
from loopwise.notices import GradientError
from oracles import few_kernels

GRAPH = lw.FactorGraph.from_scopes([2, 3, 2], [(0,), (1,), (0, 1), (1, 2), (2, 0)])
ONE = lw.FactorGraph([2] * 3, {"unary": np.arange(3)[:, None]}, {"one": [(lw.ExactlyOne(3), [0, 1, 2])]})
FEW = {"iterations": 3, "tolerance": 0}
METHODS = {
    "BP": lw.BP(**FEW),  # type: ignore[arg-type]
    "BP damped": lw.BP(damping=0.2, **FEW),  # type: ignore[arg-type]
    "TRW": lw.TRW(**FEW),  # type: ignore[arg-type]
    "reference": lw.BP(engine=lw.inference.Reference(), **FEW),  # type: ignore[arg-type]
    "mean field": lw.MeanField(iterations=3, tolerance=0),
    "exact": lw.Exact(),
}
TWICE = ("BP", "reference")  # that differentiate decisions twice, as the others do not or not always
Tables = dict[str, Tensor]


def tables(batch: tuple[int, ...] = (), seed: int = 0, dtype: torch.dtype = torch.float64) -> Tables:
    source = torch.Generator().manual_seed(seed)
    return {
        group.name: torch.randn(*batch, group.count, *group.shape, generator=source, dtype=torch.float64).to(dtype)
        for group in GRAPH.groups
    }


def loss(method: lw.inference.Inference) -> Callable[[Tables], Tensor]:
    return lambda given: method(GRAPH, given).states.square().sum()


def by_autograd(function: Callable[[Tables], Tensor], given: Tables) -> Tables:
    leaves = {name: table.clone().requires_grad_() for name, table in given.items()}
    found = torch.autograd.grad(function(leaves), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def close(mine: object, theirs: object) -> None:
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


# --- torch.func ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_gradients_and_batches_of_transforms(name: str) -> None:
    method, given, many = METHODS[name], tables(), tables((4,))
    close(grad(loss(method))(given), by_autograd(loss(method), given))
    close(vmap(lambda each: method(GRAPH, each).states)(many), method(GRAPH, many).states)
    close(vmap(grad(loss(method)))(many), by_autograd(loss(method), many))  # examples do not see each other


def test_what_is_mapped_over_and_what_is_shared() -> None:
    """Other axes than the first, tables that all share, batches within, transforms within transforms."""
    method, many, shared = METHODS["BP"], tables((4,)), tables()
    name, *others = many
    rest = {key: shared[key] for key in others}
    mapped = {key: 1 if key == name else None for key in shared}
    given = {name: many[name].movedim(0, 1), **rest}
    states = vmap(lambda t: method(GRAPH, t).states, in_dims=(mapped,))(given)
    close(states, method(GRAPH, {**rest, name: many[name]}).states)
    gradients = vmap(grad(loss(method)), in_dims=(mapped,))(given)
    for row in range(4):
        mine = by_autograd(loss(method), {**rest, name: many[name][row]})
        close({key: table[row] for key, table in gradients.items()}, mine)
    inner = {key: table.reshape(2, 2, *table.shape[1:]) for key, table in many.items()}
    expected = method(GRAPH, many).states.reshape(2, 2, -1)
    close(vmap(lambda t: method(GRAPH, t).states)(inner), expected)
    close(vmap(vmap(lambda t: method(GRAPH, t).states))(inner), expected)
    observed = np.array([[0, -1, -1], [1, -1, 0]])
    within = vmap(lambda t: method(GRAPH, t, observed).states)(many)
    close(within[3], method(GRAPH, {key: table[3] for key, table in many.items()}, observed).states)


@pytest.mark.parametrize("name", TWICE)
def test_tangents_and_second_derivatives(name: str) -> None:
    method, given, along = METHODS[name], tables(), tables(seed=1)
    function = lambda t: method(GRAPH, t).states  # noqa: E731
    value, tangent = jvp(function, (given,), (along,))
    close(value, function(given))
    jacobian = jacrev(function)(given)
    expected = sum(torch.tensordot(jacobian[key], along[key], dims=along[key].ndim) for key in given)
    close(tangent, expected)
    key = next(iter(given))
    one = lambda table: loss(method)({**given, key: table})  # noqa: E731
    close(jacfwd(lambda table: function({**given, key: table}))(given[key]), jacobian[key])
    close(hessian(one)(given[key]), torch.autograd.functional.hessian(one, given[key]))
    close(jacrev(jacrev(one))(given[key]), hessian(one)(given[key]))


def test_parts_of_beliefs_within_transforms() -> None:
    method, given = METHODS["exact"], tables()
    log_z = lambda t: method(GRAPH, t).log_partition  # noqa: E731
    marginals = grad(log_z)(given)
    for group in GRAPH.groups:
        close(marginals[group.name], method(GRAPH, given).factor(group.name))
        factor = vmap(lambda t, name=group.name: method(GRAPH, t).factor(name))(tables((2,)))
        close(factor, method(GRAPH, tables((2,))).factor(group.name))
    seen = []
    vmap(lambda t: seen.append(method(GRAPH, t)) or seen[0].states)(tables((2,)))
    assert seen[0].status.exact


def test_what_transforms_cannot_do_is_said() -> None:
    given = tables()
    with pytest.raises(GradientError, match="Gibbs has no gradient"):
        grad(loss(lw.Gibbs()))(given)
    with pytest.raises(ValueError, match=r"within torch\.func takes a mapping of group names to tables"):
        grad(lambda t: METHODS["BP"](GRAPH, [t]).states.sum())(next(iter(given.values())))
    with pytest.raises(GradientError, match=r"take the tangent of a gradient, torch.func.jvp\(torch.func.grad"):
        grad(lambda t: jvp(loss(METHODS["BP"]), (t,), (tables(seed=1),))[1])(given)


def test_structured_factors_within_transforms() -> None:
    method, many = lw.BP(iterations=4), torch.randn(3, 3, 2, dtype=torch.float64)
    close(vmap(lambda unary: method(ONE, {"unary": unary}).states)(many), method(ONE, {"unary": many}).states)


# --- torch.compile ---------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A network, inference, and something after it."""

    def __init__(self, graph: lw.FactorGraph | None = None) -> None:
        super().__init__()
        self.graph = graph or lw.chain(4)
        self.scores = nn.Linear(3, 8)
        self.pair = nn.Parameter(torch.tensor([[[0.5, -0.5], [-0.5, 0.5]]]))
        self.inference = lw.BP(**FEW)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        unary = self.scores(x).reshape(-1, 4, 2)
        return self.inference(self.graph, {"unary": unary, "pair": self.pair}).variables.square().sum(-1)


def test_compiled_with_one_break() -> None:
    torch.manual_seed(0)
    layer, x = Layer(), torch.randn(5, 3)
    torch._dynamo.reset()
    found = torch._dynamo.explain(layer)(x)
    assert found.graph_break_count == 1 and found.graph_count == 2
    torch._dynamo.reset()
    twin = copy.deepcopy(layer)
    compiled = torch.compile(twin, backend="aot_eager")
    for count in (5, 1, 7):  # a small call, too
        x = torch.randn(count, 3)
        ours, theirs = layer(x), compiled(x)
        torch.testing.assert_close(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
    for mine, other in zip(layer.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


# --- Types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BP", "reference", "mean field", "exact"])
def test_narrow_and_mixed_types_are_widened(name: str) -> None:
    method = METHODS[name]
    for narrow in (torch.float16, torch.bfloat16):
        given = tables(dtype=narrow)
        wide = {key: table.float() for key, table in given.items()}
        close(method(GRAPH, given).states, method(GRAPH, wide).states)
        assert method(GRAPH, given).states.dtype == torch.float32
    mixed = tables(dtype=torch.float32)
    key = next(iter(mixed))
    mixed[key] = mixed[key].double().requires_grad_()
    found = method(GRAPH, mixed).states
    assert found.dtype == torch.float64
    close(found, method(GRAPH, {k: t.double() for k, t in mixed.items()}).states)
    (gradient,) = torch.autograd.grad(found.square().sum(), mixed[key])
    assert gradient.dtype == torch.float64 and bool(gradient.any())


@pytest.mark.parametrize("engine", [lw.inference.Compiled(), lw.inference.Reference()])
def test_inference_is_not_narrowed_by_autocast(engine: lw.inference.Engine) -> None:
    method, given = lw.BP(engine=engine, **FEW), tables((3,), dtype=torch.float32)  # type: ignore[arg-type]
    expected = method(GRAPH, given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = method(GRAPH, given)
        assert torch.equal(found.states, expected.states)
        torch.testing.assert_close(found.log_partition, expected.log_partition)
        layer = Layer()
        layer(torch.randn(2, 3)).sum().backward()
    assert all(param.grad is not None and param.grad.dtype == torch.float32 for param in layer.parameters())


def test_structured_factors_under_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = lw.BP(iterations=4)(ONE, {"unary": torch.zeros(3, 2, dtype=torch.bfloat16)})
    torch.testing.assert_close(found.variables[:, 1], torch.full((3,), 1 / 3))


# --- Data loaders, copies, files -------------------------------------------------------------------------------------


class Marginals(torch.utils.data.Dataset[Tensor]):
    """Items that are themselves found by inference, in whatever process asks."""

    def __init__(self) -> None:
        self.graph, self.method = lw.chain(4), lw.BP(**FEW)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return 4

    def __getitem__(self, item: int) -> Tensor:
        few_kernels.in_this_process()  # the same ones in all of them
        given = {"unary": torch.full((4, 2), 0.1 * item).cumsum(-1), "pair": torch.zeros(1, 2, 2)}
        return self.method(self.graph, given).variables


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader(start: str) -> None:
    if start not in torch.multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {start} processes")
    if start == "fork" and sys.platform == "darwin":
        pytest.skip("threads of the system do not survive a fork here")
    dataset = Marginals()
    expected = torch.stack([dataset[item] for item in range(4)])  # also: kernels have run before the fork
    loader = torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context=start)
    torch.testing.assert_close(torch.cat(list(loader)), expected)


def test_copies_and_files_of_weights(tmp_path: Path) -> None:
    torch.manual_seed(1)
    layer, x = Layer(), torch.randn(2, 3)
    torch.save(layer.state_dict(), tmp_path / "weights.pt")
    other = Layer()
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    twin = copy.deepcopy(layer)
    assert torch.equal(layer(x), other(x)) and torch.equal(layer(x), twin(x))
    assert torch.equal(functional_call(other, dict(layer.named_parameters()), (x,)), layer(x))
    system = lw.System(lw.TablePotentials.random(lw.chain(3), seed=0), lw.BP(), lw.decode.Max())
    again = copy.deepcopy(system)
    torch.save(system.state_dict(), tmp_path / "system.pt")
    again.load_state_dict(torch.load(tmp_path / "system.pt", weights_only=True))
    assert torch.equal(system.predict({0: 1}), again.predict({0: 1}))
