r"""Stochastic meta-descent: a gain for each parameter, learnt by Hessian-vector products.

In: parameters, and a closure that gives the loss of a mini-batch. Out: changed parameters. Stage: learning.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from loopwise.gradient.hvp import check_scalar, gradient_and_hvp
from loopwise.learn.optim.untraced import Untraced
from loopwise.notices import GradientError


class SMD(Untraced):
    r"""Stochastic meta-descent (Schraudolph 1999; Stoyanov et al. 2011, section 4.3).

    .. math::
        \eta_t=\eta_{t-1}\circ\max(\tfrac12,\;1-\mu\,v_t\circ g_t),\quad
        \theta_{t+1}=\theta_t-\eta_t\circ g_t,\quad
        v_{t+1}=\lambda v_t-\eta_t\circ(g_t+\lambda H_tv_t),\quad v_0=0

    with gradient :math:`g_t` and Hessian :math:`H_t` of the same mini-batch. ``step(closure)`` needs a closure that
    *returns the loss and does not call backward*; the gradient and :math:`H_tv_t` are taken here, from one forward
    pass, at about four times the cost of a gradient. Afterwards ``param.grad`` holds the (clipped) gradient.

    Parameters
    ----------
    gain:
        :math:`\eta_0`, the first gain of every parameter.
    meta:
        :math:`\mu\ge0`; 0 is plain gradient descent with fixed gains (and costs no Hessian-vector product).
    memory:
        :math:`0\le\lambda\le1`: how far back a gain's effect is traced.
    largest_multiplier:
        A gain grows by at most this factor in a step (None: no limit). The authors' software has 5.
    gain_range:
        Gains stay within ``[gain / gain_range, gain * gain_range]``.
    largest_trace:
        Entries of :math:`v` stay within this bound: under an indefinite Hessian and a memory near 1 it would diverge.
    clip:
        Gradients longer than this are scaled down to it, and :math:`H_tv_t` by the same factor (None: never).

    A loss that is not finite changes nothing and is returned; a gradient that is not finite is an error.

    >>> theta = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    >>> optimizer = SMD([theta], gain=0.05)
    >>> for _ in range(60):
    ...     loss = optimizer.step(lambda: (torch.tensor([1.0, 10.0]) * theta.square()).sum())
    >>> bool(loss < 1e-6)
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        gain: float = 0.1,
        meta: float = 0.6,
        memory: float = 0.5,
        *,
        largest_multiplier: float | None = 5.0,
        gain_range: float = 1e4,
        largest_trace: float = 100.0,
        clip: float | None = None,
    ) -> None:
        defaults = {
            "gain": gain,
            "meta": meta,
            "memory": memory,
            "largest_multiplier": largest_multiplier,
            "gain_range": gain_range,
            "largest_trace": largest_trace,
        }
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be a positive norm or None, not {clip}")
        self.clip = clip
        super().__init__(params, defaults)
        for group in self.param_groups:
            _check(group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """One step on the batch whose loss ``closure`` returns; gives that loss, from before the step."""
        if closure is None:
            raise ValueError("SMD needs a closure that returns the loss, without calling backward: step(closure)")
        return self.step_on(closure)

    @torch.no_grad()
    def step_on(self, loss: Callable[[], Tensor]) -> Tensor:
        """The same as ``step(loss)``."""
        owned = [(param, group) for group in self.param_groups for param in group["params"] if param.requires_grad]
        for param, group in owned:
            self._start(param, group)
        value, gradient, product = self._derivatives(loss, owned)
        if not bool(torch.isfinite(value)):
            return value
        for number, piece in enumerate(gradient):
            if not bool(torch.isfinite(piece).all()):
                raise GradientError(
                    f"the gradient of parameter {number} is not finite while the loss is {float(value):g}; "
                    "lower the gain, or clip gradients"
                )
        scale = self._scale(gradient)
        for (param, group), g, h in zip(owned, gradient, product, strict=True):
            param.grad = g if scale == 1.0 else g * scale
            self._update(param, group, param.grad, h * scale)
        return value

    def reset_gains(self) -> None:
        """Back to the first gains and an empty trace: when the loss is exchanged for another."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state.pop(param, None)

    def gains(self, param: Tensor) -> Tensor:
        """The current gain of each entry of ``param``."""
        for group in self.param_groups:
            if any(param is mine for mine in group["params"]):
                self._start(param, group)
                gains: Tensor = self.state[param]["gain"]
                return gains
        raise ValueError("this optimiser does not own the parameter asked for; ask for one that it was made with")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(copy.deepcopy(state_dict))  # torch would go on with the very tensors it is given

    def _start(self, param: Tensor, group: dict[str, Any]) -> None:
        if not self.state[param]:
            self.state[param]["gain"] = torch.full_like(param, group["gain"], memory_format=torch.preserve_format)
            self.state[param]["trace"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            self.state[param]["moved"] = False  # whether the trace may be other than 0

    def _derivatives(
        self, loss: Callable[[], Tensor], owned: list[tuple[Tensor, dict[str, Any]]]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        params = [param for param, _ in owned]
        needed = any(group["meta"] and group["memory"] and self.state[param]["moved"] for param, group in owned)
        try:
            if needed:
                value, gradient, product = gradient_and_hvp(loss, params, [self.state[p]["trace"] for p in params])
                return value, gradient, [h.to_dense() if h.is_sparse else h for h in product]
            with torch.enable_grad():
                value = check_scalar(loss())
                found = torch.autograd.grad(value, params, allow_unused=True)
        except RuntimeError as error:
            if "second time" not in str(error):
                raise
            raise GradientError("the closure of SMD must return the loss without calling backward on it") from error
        gradient = [torch.zeros_like(p) if g is None else g for g, p in zip(found, params, strict=True)]
        gradient = [g.to_dense() if g.is_sparse else g for g in gradient]
        return value.detach(), gradient, [torch.zeros_like(param) for param in params]

    def _scale(self, gradient: list[Tensor]) -> float:
        if self.clip is None:
            return 1.0
        norm = math.sqrt(sum(float(piece.square().sum()) for piece in gradient))
        return min(1.0, self.clip / norm) if norm > 0 else 1.0

    def _update(self, param: Tensor, group: dict[str, Any], gradient: Tensor, product: Tensor) -> None:
        state = self.state[param]
        gain, trace = state["gain"], state["trace"]
        if group["meta"]:
            gain.mul_((1.0 - group["meta"] * trace * gradient).clamp_(min=0.5, max=group["largest_multiplier"]))
            gain.clamp_(group["gain"] / group["gain_range"], group["gain"] * group["gain_range"])
        param.sub_(gain * gradient)
        if group["meta"]:
            moved = group["memory"] * trace - gain * (gradient + group["memory"] * product)
            # Where curvature overflowed nothing is known of a gain's effect: forget it there.
            torch.nan_to_num_(moved, nan=0.0, posinf=0.0, neginf=0.0)
            trace.copy_(moved.clamp_(-group["largest_trace"], group["largest_trace"]))
            state["moved"] = True


def _check(group: dict[str, Any]) -> None:
    wrong = {
        "gain must be positive": group["gain"] > 0,
        "meta must be at least 0": group["meta"] >= 0,
        "memory must be from 0 to 1": 0 <= group["memory"] <= 1,
        "gain_range must be at least 1": group["gain_range"] >= 1,
        "largest_trace must be positive": group["largest_trace"] > 0,
        "largest_multiplier must be at least 1, or None": (group["largest_multiplier"] or 1) >= 1,
    }
    for message, right in wrong.items():
        if not right:
            name = message.split()[0]
            raise ValueError(f"{message}, not {group[name]}")
