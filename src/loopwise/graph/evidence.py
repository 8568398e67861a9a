"""What is known of the variables, example by example: values and roles.

In: values the user knows. Out: clamped values, ``-1`` where a variable stays free. Stage: structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from loopwise.graph.factor_graph import FactorGraph, Integers

FREE = -1  # marks a variable that is not clamped


class Role(IntEnum):
    """What a variable is in one example (Stoyanov et al. 2011, section 2)."""

    INPUT = 0  # observed in training and at test time
    OUTPUT = 1  # observed in training only: what is predicted and scored
    HIDDEN = 2  # never observed
    MISSING = 3  # would be an input or output, but this example does not have it


@dataclass(frozen=True)
class Evidence:
    """Values and roles of variables, possibly different in each example.

    ``values`` is ``[*batch, variables]``; entries of hidden and missing variables are ignored.
    ``roles`` is ``[variables]`` or ``[*batch, variables]`` of :class:`Role`.
    """

    values: Integers
    roles: Integers

    @staticmethod
    def of(values: ArrayLike, roles: ArrayLike) -> Evidence:
        """Checks and stores; ``roles`` broadcast over the batch."""
        value_array = np.asarray(values, dtype=np.int64)
        role_array = np.asarray(roles, dtype=np.int64)
        bad = ~np.isin(role_array, list(Role))
        if bad.any():
            raise ValueError(f"{role_array[bad][0]} is not a role; roles are {[role.name for role in Role]}")
        try:
            role_array = np.broadcast_to(role_array, value_array.shape)
        except ValueError:
            raise ValueError(
                f"roles of shape {role_array.shape} do not fit values of shape {value_array.shape}"
            ) from None
        return Evidence(value_array, role_array)

    def clamp(self, roles: Iterable[Role] = (Role.INPUT,)) -> Integers:
        """Values of the variables that have one of ``roles``, :data:`FREE` elsewhere."""
        return np.where(np.isin(self.roles, list(roles)), self.values, FREE)


EvidenceLike = Evidence | Mapping[int, int] | ArrayLike | None


def clamped_values(graph: FactorGraph, evidence: EvidenceLike) -> Integers:
    """Clamped values ``[*batch, variables]``, :data:`FREE` where a variable is not observed.

    An :class:`Evidence` clamps its inputs; a mapping gives variable: value; an array has ``-1`` for free variables.
    """
    if evidence is None:
        return np.full(graph.variables, FREE, dtype=np.int64)
    if isinstance(evidence, Evidence):
        values = evidence.clamp()
    elif isinstance(evidence, Mapping):
        values = np.full(graph.variables, FREE, dtype=np.int64)
        for variable, value in evidence.items():
            if not 0 <= variable < graph.variables:
                raise ValueError(
                    f"evidence names variable {variable}; the graph has variables 0 to {graph.variables - 1}"
                )
            if value == FREE:
                raise ValueError(f"evidence gives variable {variable} the value {value}; leave it out to keep it free")
            values[variable] = value
    else:
        values = np.asarray(evidence)
        if not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"evidence must hold integers, not {values.dtype}")
        values = values.astype(np.int64)
    _check_values(graph, values)
    return values


def _check_values(graph: FactorGraph, values: Integers) -> None:
    if values.ndim == 0 or values.shape[-1] != graph.variables:
        raise ValueError(
            f"evidence of shape {values.shape} does not fit the graph: its last axis must be {graph.variables} variables"
        )
    bad = np.argwhere((values < FREE) | (values >= graph.cardinalities))
    if bad.size:
        place = tuple(int(index) for index in bad[0])
        where = f" (example {place[:-1]})" if len(place) > 1 else ""
        raise ValueError(
            f"evidence gives variable {place[-1]}{where} the value {values[place]}; "
            f"it has values 0 to {graph.cardinalities[place[-1]] - 1}"
        )
