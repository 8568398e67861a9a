"""The optimiser of a run: made, given what goes with it, reset between losses.

In: a plan, parameters. Out: an optimiser, a schedule. Stage: learning.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from loopwise.learn.files.checkpoint import identify
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.optim.adam import START, DenseAdam, cosine
from loopwise.learn.optim.lbfgs import LBFGS
from loopwise.learn.optim.smd import SMD
from loopwise.learn.plan import FitPlan, MakeOptimizer, MakeSchedule
from loopwise.learn.system import System
from loopwise.potentials.priors import Prior


def make_optimizer(plan: FitPlan, system: System, params: list[Tensor]) -> torch.optim.Optimizer:
    """The optimiser of the plan over ``params``, with the plan's clipping and prior where it takes them itself."""
    make: MakeOptimizer | torch.optim.Optimizer = _adam if plan.optimizer is None else plan.optimizer
    made = make if isinstance(make, torch.optim.Optimizer) else make(params)
    if not isinstance(made, torch.optim.Optimizer):
        raise ValueError(f"the optimizer must be a torch optimiser, or a function that makes one, not {made!r}")
    mine = {id(param) for param in params}
    if not all(id(param) in mine for group in made.param_groups for param in group["params"]):
        raise ValueError("the optimizer has parameters that are not the system's; make it of system.parameters()")
    if plan.clip is not None and isinstance(made, SMD):
        made.clip = plan.clip
    if plan.clip is not None and is_full_batch(made):
        raise ValueError("L-BFGS cannot clip gradients, which its line search relies on; leave clip out")
    if isinstance(made, AdaGradCOMID):
        _give_prior(made, plan.prior)
        made.attach(system.potentials)
    return made


def make_schedule(make: MakeSchedule | None, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
    """The schedule of the learning rate of ``optimizer``, if there is to be one."""
    if make is None:
        return None
    if any("lr" not in group for group in optimizer.param_groups):
        raise ValueError(
            f"{type(optimizer).__name__} has no learning rate that a schedule could change; leave the schedule out"
        )
    return make(optimizer)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate from which a stage starts."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] = rate


def lower_rate(optimizer: torch.optim.Optimizer, done: int, allowed: int) -> None:
    """The rate of a stage after ``done`` of ``allowed`` epochs: on a cosine from the first one to zero."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * cosine(done, allowed)


def is_full_batch(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step compares losses of several points, which must then be of the same data."""
    return isinstance(optimizer, LBFGS | torch.optim.LBFGS)


def reset_gains(optimizer: torch.optim.Optimizer) -> None:
    """Forgets what was learnt of the last loss."""
    reset = getattr(optimizer, "reset_gains", None)
    if reset is not None:
        reset()
    else:
        optimizer.state.clear()


def gain_range(optimizer: torch.optim.Optimizer) -> tuple[float, float, float] | None:
    """The least, the median and the largest gain, or the learning rates of the groups likewise."""
    if isinstance(optimizer, SMD):
        owned = [param for group in optimizer.param_groups for param in group["params"]]
        gains = torch.cat([optimizer.gains(param).detach().reshape(-1).double() for param in owned])
        return float(gains.min()), float(gains.median()), float(gains.max())
    rates = sorted(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)
    return (rates[0], rates[len(rates) // 2], rates[-1]) if rates else None


def describe_optimizer(optimizer: torch.optim.Optimizer) -> str:
    """An optimiser for comparison: its class and options, but nothing that torch adds as it goes."""
    options = {name: value for name, value in optimizer.defaults.items() if name != "differentiable"}
    own = {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, bool | int | float) and not name.startswith("_")
    }
    return f"{type(optimizer).__name__} {identify({**options, **own})}"


def _adam(params: list[Tensor]) -> torch.optim.Optimizer:
    return DenseAdam(params, lr=START)  # until a rate is found


def _give_prior(optimizer: AdaGradCOMID, prior: Prior | None) -> None:
    if prior is None:
        return
    for group in optimizer.param_groups:
        if group["prior"] is not None and group["prior"] != prior:
            raise ValueError(f"the optimizer has the prior {group['prior']}, and {prior} is given besides; give one")
        group["prior"] = prior
