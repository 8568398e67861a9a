r"""AdaGrad with composite mirror descent: regularisation in closed form, paid only by the weights that are touched.

In: parameters with dense or sparse gradients, a prior. Out: changed parameters. Stage: learning.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import Integers
from loopwise.learn.optim.rows import touched_rows
from loopwise.learn.optim.untraced import Untraced
from loopwise.potentials.priors import L1, L2, Prior, Separable
from loopwise.potentials.sparse import SparsePotentials


class AdaGradCOMID(Untraced):
    r"""AdaGrad (Duchi, Hazan & Singer 2011) in its composite mirror descent form (Duchi et al. 2010).

    .. math::
        G\mathrel{+}=g^2,\qquad h=\delta+\sqrt G,\qquad
        \theta\leftarrow\arg\min_z\ \sum_i\tfrac{h_i}{2\eta}\big(z_i-\theta_i+\tfrac{\eta}{h_i}g_i\big)^2+R(z)

    With ``prior=L2(lambda)`` that is :math:`\theta\leftarrow(h\theta-\eta g)/(h+\eta\lambda)`, with ``L1`` a soft
    threshold at :math:`\eta\lambda/h`, with ``GroupSparsity`` a threshold on whole rows, without a prior AdaGrad
    itself.

    **Lazy.** A parameter ``[rows, ...]`` whose gradient is a sparse tensor over its rows pays only for the rows in it.
    Every step regularises every row in the dense algorithm; a row that was not touched for :math:`k` steps has had
    :math:`g=0`, so :math:`h` did not change, and its :math:`k` steps are one: :math:`\theta\,(h/(h+\eta\lambda))^k`
    for L2, a soft threshold at :math:`k\eta\lambda/h` for L1, both with the :math:`h` *before* the new gradient. So the
    updates are those of the dense algorithm, delayed, not approximated. For its gradients to be the same too, scores
    must be computed from rows that have paid: :meth:`attach` has :class:`~loopwise.SparsePotentials` ask for that as
    they read; without it a batch sees its rows as they were last left. What other rows owe is paid by :meth:`flush`
    (before parameters are evaluated or saved; also called when the rate or the prior's strength changes).
    ``GroupSparsity`` has no such closed form and takes dense gradients only. A parameter without a gradient is not
    stepped at all.

    Mind that a coordinate whose gradient was always exactly 0 has :math:`h=\delta`, so any prior sends it to 0 at once;
    a larger ``delta`` (or ``initial``, the first :math:`G`) is gentler to a random start.

    Sparse gradients on the CPU run in a kernel, O(touched rows); dense ones, O(all weights).

    >>> from loopwise.potentials.priors import L1
    >>> theta = torch.tensor([1.0, 0.001], dtype=torch.float64, requires_grad=True)
    >>> optimizer = AdaGradCOMID([theta], rate=0.1, prior=L1(0.5))
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (theta - torch.tensor([3.0, 0.2])).square().sum().backward()
    ...     optimizer.step()
    >>> bool(theta[0] > 1), theta[1].item()
    (True, 0.0)
    """

    def __init__(
        self,
        params: Iterable[Any],
        rate: float = 0.1,
        prior: Prior | None = None,
        *,
        delta: float = 1e-9,
        initial: float = 0.0,
    ) -> None:
        if not rate > 0:
            raise ValueError(f"rate must be positive, not {rate}")
        if not delta > 0:
            raise ValueError(f"delta must be positive, not {delta}")
        if not initial >= 0:
            raise ValueError(f"initial must be at least 0, not {initial}")
        if prior is not None and not isinstance(prior, Prior):
            raise ValueError(f"prior must be a Prior such as L2(0.1), or None, not {type(prior).__name__}")
        # The rate is called lr in the groups, where torch's schedulers look for it.
        super().__init__(params, {"lr": rate, "prior": prior, "delta": delta, "initial": initial})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step on the gradients there are; ``closure``, if given, computes them first and returns the loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._step(param, param.grad, group)
        return loss

    @torch.no_grad()
    def flush(self) -> None:
        """Pays the regularisation that untouched rows still owe, so that parameters equal those of dense steps."""
        for group in self.param_groups:
            for param in group["params"]:
                if "last" in self.state[param]:
                    self._flush(param, self.state[param], group["delta"])

    def attach(self, potentials: nn.Module) -> None:
        """Has the :class:`~loopwise.SparsePotentials` in ``potentials`` call :meth:`catch_up` before they read rows."""
        for module in potentials.modules():
            if isinstance(module, SparsePotentials):
                module.on_read = self.catch_up

    @torch.no_grad()
    def catch_up(self, param: Tensor, rows: Integers) -> None:
        """Pays what ``rows`` of ``param`` owe (rows may repeat); nothing happens where nothing is owed. O(rows)."""
        state = self.state.get(param, {})
        if "last" not in state or not (state["l1"] or state["l2"]):
            return
        group = next(group for group in self.param_groups if any(param is mine for mine in group["params"]))
        if param.device.type == "cpu" and param.is_contiguous():
            from loopwise.learn.kernels.comid import catch_up_rows

            arrays = (_as_rows(param), _as_rows(state["squares"]), state["last"].numpy(), rows)
            catch_up_rows(*arrays, state["steps"], state["rate"], group["delta"], state["l1"], state["l2"])
        else:
            self._flush(param, state, group["delta"])

    @torch.no_grad()
    def reset_gains(self) -> None:
        """Forgets the squared gradients: when the loss is exchanged for another."""
        self.flush()
        for group in self.param_groups:
            for param in group["params"]:
                self.state.pop(param, None)

    def state_dict(self) -> dict[str, Any]:
        """As torch optimisers give it, but for the prior, which is an object: whoever loads gives it again."""
        state: dict[str, Any] = super().state_dict()
        state["param_groups"] = [
            {key: value for key, value in group.items() if key != "prior"} for group in state["param_groups"]
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = copy.deepcopy(state_dict)  # torch would go on with the very tensors it is given
        priors = [group["prior"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, prior in zip(self.param_groups, priors, strict=True):
            group["prior"] = prior
        # torch casts all state to the parameter's dtype; counts of steps are integers and stay so.
        params = [param for group in self.param_groups for param in group["params"]]
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        for param, number in zip(params, numbers, strict=True):
            saved = state_dict["state"].get(number, {})
            if "last" in saved:
                self.state[param]["last"] = saved["last"].to(param.device)

    def _step(self, param: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[param]
        if "steps" not in state:
            state["steps"] = 0
            state["squares"] = torch.full_like(param, group["initial"], memory_format=torch.contiguous_format)
        if "last" in state and self._owed_otherwise(state, group):
            self._flush(param, state, group["delta"])
        if gradient.is_sparse:
            self._sparse_step(param, *touched_rows(gradient), state, group)
        else:
            self._dense_step(param, gradient, state, group)

    def _owed_otherwise(self, state: dict[str, Any], group: dict[str, Any]) -> bool:
        """Whether what rows owe was agreed under another rate or prior than the group now has."""
        return (state["rate"], state["l1"], state["l2"]) != (group["lr"], *_strengths(group["prior"]))

    def _dense_step(self, param: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if "last" in state:
            self._flush(param, state, group["delta"])
            state["last"].fill_(state["steps"] + 1)
        state["steps"] += 1
        state["squares"].addcmul_(gradient, gradient)
        scale = group["lr"] / (state["squares"].sqrt() + group["delta"])
        param.addcmul_(scale, gradient, value=-1.0)
        if group["prior"] is not None:
            param.copy_(group["prior"].prox(param, scale))

    def _sparse_step(
        self, param: Tensor, rows: Tensor, values: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        if group["prior"] is not None and not isinstance(group["prior"], Separable):
            raise ValueError(
                f"{type(group['prior']).__name__} has no closed form for skipped steps; use L1 or L2 with sparse "
                "gradients, or make the gradients dense (sparse_gradient=False)"
            )
        if "last" not in state:
            state["last"] = torch.full((len(param),), state["steps"], dtype=torch.int32, device=param.device)
        state["rate"], (state["l1"], state["l2"]) = group["lr"], _strengths(group["prior"])
        state["steps"] += 1
        if param.device.type == "cpu" and param.is_contiguous():
            _compiled_step(param, rows, values, state, group["delta"])
        else:
            _plain_step(param, rows, values, state, group)

    def _flush(self, param: Tensor, state: dict[str, Any], delta: float) -> None:
        if not (state["l1"] or state["l2"]):
            state["last"].fill_(state["steps"])
        elif param.device.type == "cpu" and param.is_contiguous():
            _compiled_flush(param, state, delta)
        else:
            skipped = (state["steps"] - state["last"]).to(param.dtype).reshape(-1, *[1] * (param.ndim - 1))
            scale = state["rate"] / (state["squares"].sqrt() + delta)
            param.copy_(_agreed(state).repeated(param, scale, skipped))
            state["last"].fill_(state["steps"])


def _strengths(prior: Prior | None) -> tuple[float, float]:
    return prior.strengths if isinstance(prior, Separable) else (0.0, 0.0)


def _agreed(state: dict[str, Any]) -> Separable:
    """The prior under which skipped steps are owed."""
    return L1(state["l1"]) if state["l1"] else L2(state["l2"])


def _as_rows(tensor: Tensor) -> Any:
    """A view of a contiguous tensor as a NumPy array ``[rows, width]``."""
    return tensor.detach().view(tensor.shape[0], math.prod(tensor.shape[1:])).numpy()


def _compiled_step(param: Tensor, rows: Tensor, values: Tensor, state: dict[str, Any], delta: float) -> None:
    from loopwise.learn.kernels.comid import step_rows

    gradients = values.reshape(len(rows), math.prod(param.shape[1:])).contiguous().numpy()
    arrays = (_as_rows(param), _as_rows(state["squares"]), state["last"].numpy(), rows.contiguous().numpy(), gradients)
    step_rows(*arrays, state["steps"], state["rate"], delta, state["l1"], state["l2"])


def _compiled_flush(param: Tensor, state: dict[str, Any], delta: float) -> None:
    from loopwise.learn.kernels.comid import catch_up

    arrays = (_as_rows(param), _as_rows(state["squares"]), state["last"].numpy())
    catch_up(*arrays, state["steps"], state["rate"], delta, state["l1"], state["l2"])


def _plain_step(param: Tensor, rows: Tensor, values: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """The kernel's step in torch operations, for other devices."""
    prior, skipped = group["prior"], state["steps"] - 1 - state["last"][rows]
    weights, squares = param[rows], state["squares"][rows]
    if prior is not None:
        old = group["lr"] / (squares.sqrt() + group["delta"])
        weights = prior.repeated(weights, old, skipped.to(param.dtype).reshape(-1, *[1] * (param.ndim - 1)))
    squares = squares + values.square()
    scale = group["lr"] / (squares.sqrt() + group["delta"])
    weights = weights - scale * values
    param[rows] = weights if prior is None else prior.prox(weights, scale)
    state["squares"][rows] = squares
    state["last"][rows] = state["steps"]
