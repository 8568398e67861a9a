"""AdaGrad-COMID: its update written out, lazy rows against dense steps, exact zeros, files of its state."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.learn.optim import AdaGradCOMID
from loopwise.learn.optim import adagrad_comid as module
from loopwise.potentials import Features, SparseGroup, SparsePotentials
from loopwise.potentials.priors import L1, L2, GroupSparsity, Prior

PRIORS: list[Prior | None] = [None, L2(0.3), L1(0.3)]


def gradients(seed: int, steps: int, rows: int = 12, width: int = 3) -> list[tuple[np.ndarray, torch.Tensor]]:
    """Rows touched and their gradients, few rows a step, sometimes none."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(steps):
        touched = np.flatnonzero(generator.random(rows) < 0.2)
        found.append((touched, torch.tensor(generator.normal(size=(len(touched), width)))))
    return found


def start(seed: int = 0, rows: int = 12, width: int = 3) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def give(param: torch.Tensor, touched: np.ndarray, values: torch.Tensor, dense: bool) -> None:
    index = torch.from_numpy(touched)[None]
    sparse = torch.sparse_coo_tensor(index, values.to(param.dtype), param.shape, check_invariants=True)
    param.grad = sparse.to_dense() if dense else sparse


@pytest.mark.parametrize("prior", PRIORS)
def test_a_dense_step_is_the_published_one(prior: Prior | None) -> None:
    """Parser spec, section 7, in NumPy."""
    theta = start().requires_grad_()
    optimizer = AdaGradCOMID([theta], rate=0.2, prior=prior, delta=1e-3)
    expected, squares = start().numpy(), np.zeros((12, 3))
    for touched, values in gradients(1, 6):
        give(theta, touched, values, dense=True)
        optimizer.step()
        g = np.zeros((12, 3))
        g[touched] = values.numpy()
        squares += g**2
        h = 1e-3 + np.sqrt(squares)
        if isinstance(prior, L2):
            expected = (h * expected - 0.2 * g) / (h + 0.2 * 0.3)
        else:
            expected = expected - 0.2 * g / h
            if prior is not None:
                expected = np.sign(expected) * np.maximum(np.abs(expected) - 0.2 * 0.3 / h, 0)
        np.testing.assert_allclose(theta.detach().numpy(), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("prior", PRIORS)
@given(seed=st.integers(0, 10_000), delta=st.sampled_from([1e-9, 0.5]), compiled=st.booleans())
def test_lazy_rows_are_dense_steps_after_a_flush(prior: Prior | None, seed: int, delta: float, compiled: bool) -> None:
    dense, lazy = start(seed).requires_grad_(), start(seed).requires_grad_()
    eager = AdaGradCOMID([dense], 0.2, prior, delta=delta)
    delayed = AdaGradCOMID([lazy], 0.2, prior, delta=delta)
    for step, (touched, values) in enumerate(gradients(seed, 15)):
        for param, optimizer, is_dense in ((dense, eager, True), (lazy, delayed, False)):
            give(param, touched, values, is_dense)
            if not compiled and not is_dense:
                one_plain_step(optimizer, param)
            else:
                optimizer.step()
        np.testing.assert_allclose(lazy.detach()[touched], dense.detach()[touched], rtol=1e-10, atol=1e-13)
        if step == 7:  # a flush in between changes nothing
            delayed.flush()
            torch.testing.assert_close(lazy, dense, rtol=1e-10, atol=1e-13)
    delayed.flush()
    torch.testing.assert_close(lazy, dense, rtol=1e-10, atol=1e-13)
    kept = lazy.detach().clone()
    delayed.flush()
    assert torch.equal(kept, lazy)


def one_plain_step(optimizer: AdaGradCOMID, param: torch.Tensor) -> None:
    """The path of other devices, on this one."""
    kernel = module._compiled_step
    group = optimizer.param_groups[0]
    try:
        module._compiled_step = lambda p, rows, values, state, _: module._plain_step(p, rows, values, state, group)
        optimizer.step()
    finally:
        module._compiled_step = kernel


@pytest.mark.parametrize("prior", [L2(0.3), L1(0.05)])
def test_a_change_of_rate_or_a_dense_gradient_in_between(prior: Prior) -> None:
    dense, lazy = start().requires_grad_(), start().requires_grad_()
    optimizers = [AdaGradCOMID([param], 0.2, prior) for param in (dense, lazy)]
    for step, (touched, values) in enumerate(gradients(3, 20)):
        for param, optimizer in zip((dense, lazy), optimizers, strict=True):
            optimizer.param_groups[0]["lr"] = 0.2 / (1 + step // 5)
            give(param, touched, values, dense=param is dense or step == 12)
            optimizer.step()
    optimizers[1].flush()
    torch.testing.assert_close(lazy, dense, rtol=1e-10, atol=1e-13)


def test_rows_without_pending_steps_are_not_touched() -> None:
    lazy = start().requires_grad_()
    optimizer = AdaGradCOMID([lazy], 0.2, L2(0.3))
    give(lazy, np.array([2, 5]), torch.ones(2, 3, dtype=torch.float64), dense=False)
    optimizer.step()
    others = [row for row in range(12) if row not in (2, 5)]
    assert torch.equal(lazy.detach()[others], start()[others])
    assert optimizer.state[lazy]["last"].tolist() == [int(row in (2, 5)) for row in range(12)]


def test_l1_gives_exact_zeros_where_a_feature_does_not_help() -> None:
    """A regression on sparse features of which two matter: the others end at 0, not near it."""
    generator = np.random.default_rng(0)
    index = generator.integers(0, 30, (400, 3))
    target = torch.tensor(2.0 * (index == 4).sum(1) - 3.0 * (index == 7).sum(1) + 0.1 * generator.normal(size=400))
    model = SparsePotentials({"g": SparseGroup((1,), 30)})
    optimizer = AdaGradCOMID(model.parameters(), rate=0.5, prior=L1(0.05))
    for epoch in range(30):
        for batch in np.array_split(np.random.default_rng(epoch).permutation(400), 20):
            optimizer.zero_grad()
            scores = model({"g": Features.of_table(index[batch])})["g"][:, 0]
            (scores - target[batch]).square().mean().backward()
            optimizer.step()
    optimizer.flush()
    weight = model.weight("g").detach()[:, 0]
    zeros = set(torch.nonzero(weight == 0).flatten().tolist())
    assert len(zeros) >= 20
    assert not zeros & {4, 7}
    assert float(weight[4]) == pytest.approx(2.0, abs=0.4)
    assert float(weight[7]) == pytest.approx(-3.0, abs=0.4)


def test_single_precision_follows_double() -> None:
    small, large = start().float().requires_grad_(), start().requires_grad_()
    optimizers = [AdaGradCOMID([param], 0.2, L2(0.1), initial=0.01) for param in (small, large)]
    for touched, values in gradients(5, 15):
        for param, optimizer in zip((small, large), optimizers, strict=True):
            give(param, touched, values, dense=False)
            optimizer.step()
    for optimizer in optimizers:
        optimizer.flush()
    torch.testing.assert_close(small.double(), large, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_state_survives_a_file(dtype: torch.dtype) -> None:
    def made(values: torch.Tensor) -> tuple[torch.Tensor, AdaGradCOMID]:
        param = values.clone().requires_grad_()
        return param, AdaGradCOMID([param], 0.2, L2(0.3))

    def advance(param: torch.Tensor, optimizer: AdaGradCOMID, seed: int) -> None:
        for touched, values in gradients(seed, 6):
            give(param, touched, values, dense=False)
            optimizer.step()

    param, optimizer = made(start().to(dtype))
    advance(param, optimizer, 1)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again, resumed = made(param.detach())
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert resumed.state[again]["last"].dtype == torch.int32
    for pair in ((param, optimizer), (again, resumed)):
        advance(*pair, 2)
        pair[1].flush()
    assert torch.equal(param, again)
    optimizer.reset_gains()
    assert not optimizer.state


@pytest.mark.parametrize("prior", [L2(0.05), L1(0.02)])
@pytest.mark.parametrize("attached", [True, False])
def test_attached_to_its_model_training_is_the_dense_one(prior: Prior, attached: bool) -> None:
    """Gradients depend on the weights here: rows must have paid before they are read."""
    generator = np.random.default_rng(2)
    batches = [Features.of_table(generator.integers(0, 25, (4, 3))) for _ in range(30)]
    trained = []
    for sparse in (True, False):
        model = SparsePotentials({"g": SparseGroup((2,), 25)}, sparse_gradient=sparse)
        optimizer = AdaGradCOMID(model.parameters(), rate=0.3, prior=prior)
        if sparse and attached:
            optimizer.attach(model)
        for features in batches:
            optimizer.zero_grad()
            (model({"g": features})["g"] - torch.tensor([1.0, -2.0])).square().sum().backward()
            optimizer.step()
        optimizer.flush()
        trained.append(model.weight("g").detach())
        assert copy.deepcopy(model).on_read is None
    close = torch.allclose(*trained, rtol=1e-10, atol=1e-12)
    assert close is attached


def test_groups_take_dense_gradients_only() -> None:
    param = start().requires_grad_()
    optimizer = AdaGradCOMID([param], 0.2, GroupSparsity(0.5), delta=1.0)
    give(param, np.array([2]), torch.ones(1, 3, dtype=torch.float64), dense=True)
    for _ in range(60):
        optimizer.step()
    assert int((param.detach() == 0).all(1).sum()) == 11
    assert bool((param.detach()[2] != 0).all())
    give(param, np.array([2]), torch.ones(1, 3, dtype=torch.float64), dense=False)
    with pytest.raises(ValueError, match="GroupSparsity has no closed form for skipped steps"):
        optimizer.step()


def test_refuses_what_it_cannot_use() -> None:
    param = torch.zeros(2, requires_grad=True)
    for options, message in [
        ({"rate": 0.0}, "rate must be positive"),
        ({"delta": 0.0}, "delta must be positive"),
        ({"initial": -1.0}, "initial must be at least 0"),
        ({"prior": 0.1}, "prior must be a Prior such as"),
    ]:
        with pytest.raises(ValueError, match=message):
            AdaGradCOMID([param], **options)  # type: ignore[arg-type]
    wide = torch.zeros(2, 2, requires_grad=True)
    wide.grad = torch.eye(2).to_sparse()
    with pytest.raises(ValueError, match="has 2 sparse dimensions"):
        AdaGradCOMID([wide]).step()
