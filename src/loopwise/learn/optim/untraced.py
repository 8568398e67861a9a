"""What our optimisers are made of: torch's, without the tracer of ``torch.compile``.

In: a class of optimisers. Out: one that starts at once. Stage: learning. Torch keeps its tracer out of some methods of
optimisers, and loads it for that, a quarter of the time of a short run; where nobody compiles it has nothing to trace.
"""

from __future__ import annotations

import inspect

import torch


class Untraced(torch.optim.Optimizer):
    """An optimiser whose methods do not ask for the tracer; first among the bases of ours."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
