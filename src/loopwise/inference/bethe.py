r"""The variational free energy at given beliefs: one formula for every method that has counting numbers.

In: a problem, its beliefs, counting numbers. Out: the log-partition estimate
:math:`A = \theta\cdot b + \sum_\alpha c_\alpha H(b_\alpha) + \sum_i c_i H(b_i)` (Stoyanov et al. 2011, eq. for
log Z_B; Domke spec, section 3). Stage: inference. Differentiable torch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from loopwise.inference.base import Problem
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.potentials.checks import broadcast_batches


def free_energy(
    problem: Problem,
    states: Tensor,
    factor: Callable[[str], Tensor],
    numbers: CountingNumbers,
    temperature: Tensor | float = 1.0,
    structured: Callable[[], Tensor] | None = None,
) -> Tensor:
    r"""Log-partition estimate ``[*batch]``; at temperature t the entropies are weighted by t.

    ``structured``: for each structured factor :math:`\log Z_\alpha - \sum_i b_i\cdot n_i` at its incoming messages
    n, ``[*batch, factors]``: its energy and entropy together (spec of the parser, section 2).
    """
    layout = problem.graph.layout
    own, factors = numbers.variable_tensor(layout, states), numbers.tensors(states)[0]
    owner = torch.tensor(layout.state_variable, device=states.device)
    total = problem.constant() + _unary_energy(problem, states)
    total = total + temperature * (own[owner] * entropy_terms(states)).sum(-1)
    first = 0
    for member in layout.message_groups:
        group = member.group
        beliefs = factor(group.name)
        axes = tuple(range(-group.arity, 0))
        weights = factors[first : first + group.count]
        first += group.count
        energy = expected_score(problem.table(group.name), beliefs, axes)
        total = total + (energy + temperature * weights * entropy_terms(beliefs).sum(axes)).sum(-1)
    if structured is not None and layout.structured:
        total = total + (temperature * factors[first:] * structured()).sum(-1)
    return total.expand(problem.batch) if total.shape != problem.batch else total


def entropy_terms(probabilities: Tensor) -> Tensor:
    """-p log p; 0 at p = 0 and wherever 1 / p, the second derivative, would overflow, with gradient 0 there."""
    positive = probabilities > torch.finfo(probabilities.dtype).tiny
    safe = torch.where(positive, probabilities, 1.0)
    return torch.where(positive, -probabilities * torch.log(safe), 0.0)


def expectation(log_potentials: Tensor, beliefs: Tensor) -> Tensor:
    """b * theta with 0 * (-inf) = 0."""
    finite = torch.where(torch.isneginf(log_potentials), 0.0, log_potentials)
    return beliefs * finite


def expected_score(log_potentials: Tensor, beliefs: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Sum of b * theta over ``axes``, over which beliefs sum to one but for rounding: what all cells share is set
    apart, since a large offset would multiply that rounding."""
    high = log_potentials.detach().amax(axes, keepdim=True)
    high = torch.where(torch.isneginf(high), 0.0, high)
    return expectation(log_potentials - high, beliefs).sum(axes) + high.squeeze(axes)


def _unary_energy(problem: Problem, states: Tensor) -> Tensor:
    layout, unary = problem.graph.layout, problem.unary()
    owner = torch.tensor(layout.state_variable, device=unary.device).expand(unary.shape)
    high = unary.new_full((*unary.shape[:-1], problem.graph.variables), -torch.inf)
    high = high.scatter_reduce(-1, owner, unary.detach(), "amax")
    return expectation(unary - high.gather(-1, owner), states).sum(-1) + high.sum(-1)


def score(problem: Problem, assignment: Tensor) -> Tensor:
    """Log score of a joint assignment ``[*batch, variables]``: the sum of its cells, ``[*batch]``."""
    layout = problem.graph.layout
    starts = torch.tensor(layout.state_start[:-1], device=assignment.device)
    unary = problem.unary()
    unary = unary.expand(*assignment.shape[:-1], unary.shape[-1])
    total = problem.constant() + unary.gather(-1, assignment + starts).sum(-1)
    for member in layout.message_groups:
        group = member.group
        table = problem.table(group.name)
        flat = table.reshape(*table.shape[: table.ndim - group.arity], group.cells)
        cell = torch.zeros((), dtype=torch.int64, device=assignment.device)
        for axis in range(group.arity):
            cell = cell * group.shape[axis] + assignment[..., torch.tensor(group.scopes[:, axis], device=cell.device)]
        shape = broadcast_batches(flat.shape[:-1], cell.shape)
        picked = flat.expand(*shape, flat.shape[-1]).gather(-1, cell.expand(shape)[..., None])
        total = total + picked[..., 0].sum(-1)
    for program in layout.structured:
        scope = torch.tensor(problem.graph.structured_scope(program), device=assignment.device)
        total = total + program.factor.score(assignment[..., scope], problem.factor_potentials(program)).to(total)
    return total
