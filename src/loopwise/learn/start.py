"""Where training begins: random weights, and the seeds of everything that is drawn.

In: a system, a seed. Out: changed weights, generators. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.graph.evidence import Role
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.system import System

SCALE = 0.1  # of random starts, if no other is asked for: small beside the standard normal tables of the study

State = dict[str, Tensor]


def generator(seed: int, restart: int, purpose: int) -> torch.Generator:
    """A generator of its own for each restart and purpose."""
    words = np.random.SeedSequence([seed, restart, purpose]).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)


def start_scale(system: System, examples: Corpus, wish: float | None, restarts: int) -> float | None:
    """The scale of random starts; None: the weights stay as they are.

    Without a wish they stay, unless all are 0 while variables are hidden or missing: that is a saddle, from which
    tables of hidden variables would never learn to carry anything (ERMA spec, section 9).
    """
    if wish is not None:
        return wish
    blank = not any(bool(param.detach().any()) for param in trained_potentials(system))
    unseen = bool(examples.having((Role.HIDDEN, Role.MISSING)).any())
    if restarts > 1 and not blank:
        raise ValueError(
            f"restarts begin at random weights, so those of the system would be lost: give their scale, start={SCALE}, "
            "or train once"
        )
    return SCALE if blank and (unseen or restarts > 1) else None


def draw_weights(system: System, scale: float, source: torch.Generator) -> None:
    """Independent normal numbers with standard deviation ``scale`` for all weights of the potentials."""
    with torch.no_grad():
        for param in trained_potentials(system):
            param.copy_(scale * torch.randn(param.shape, generator=source, dtype=torch.float64))


def trained_potentials(system: System) -> list[nn.Parameter]:
    """The parameters of the potentials that are trained."""
    return [param for param in system.potentials.parameters() if param.requires_grad]


def snapshot(module: nn.Module) -> State:
    """A copy of all weights and buffers."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def restore(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Puts a copy back, into the very tensors that optimisers hold."""
    module.load_state_dict(dict(state))
