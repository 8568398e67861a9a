"""What is known of the variables, example by example: values and roles.

In: values the user knows. Out: clamped values, ``-1`` where a variable stays free. Stage: structure.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from loopwise.formats.numbers import as_int64
from loopwise.graph.factor_graph import FactorGraph, Integers, variable_range

FREE = -1  # marks a variable that is not clamped


class Role(IntEnum):
    """What a variable is in one example (Stoyanov et al. 2011, section 2).

    >>> [role.name for role in Role]
    ['INPUT', 'OUTPUT', 'HIDDEN', 'MISSING']
    """

    INPUT = 0  # observed in training and at test time
    OUTPUT = 1  # observed in training only: what is predicted and scored
    HIDDEN = 2  # never observed
    MISSING = 3  # would be an input or output, but this example does not have it


@dataclass(frozen=True, eq=False)
class Evidence:
    """Values and roles of variables, possibly different in each example.

    Parameters
    ----------
    values: int64 ``[*batch, variables]``; entries of hidden and missing variables are ignored.
    roles: of :class:`Role`, ``[variables]`` or ``[*batch, variables]``.

    >>> import loopwise as lw
    >>> seen = Evidence.of([1, 0, 0], [Role.INPUT, Role.OUTPUT, Role.HIDDEN])
    >>> lw.BP()(lw.chain(3), lw.TablePotentials(lw.chain(3)), seen).variables[0].tolist()  # an input is observed
    [0.0, 1.0]
    """

    values: Integers
    roles: Integers

    @staticmethod
    def of(values: ArrayLike, roles: ArrayLike) -> Evidence:
        """Checks and stores; ``roles`` broadcast over the batch."""
        value_array = _integers("evidence", values)
        role_array = _integers("roles", roles)
        bad = ~np.isin(role_array, list(Role))
        if bad.any():
            raise ValueError(f"{role_array[bad][0]} is not a role; roles are {[role.name for role in Role]}")
        try:
            role_array = np.broadcast_to(role_array, value_array.shape)
        except ValueError:
            raise ValueError(
                f"roles of shape {role_array.shape} do not fit values of shape {value_array.shape}; "
                "give one for each variable, or one for each value"
            ) from None
        return Evidence(value_array, role_array)

    def clamp(self, roles: Iterable[Role] = (Role.INPUT,)) -> Integers:
        """Values of the variables that have one of ``roles``, :data:`FREE` elsewhere."""
        chosen = np.isin(self.roles, list(roles))
        unknown = np.argwhere(chosen & (self.values < 0))
        if unknown.size:
            place = tuple(int(index) for index in unknown[0])
            role = Role(int(self.roles[place])).name
            raise ValueError(
                f"variable {place[-1]}{_example(place)} has the role {role} but the value "
                f"{self.values[place]}; give it a value, or the role MISSING"
            )
        return np.where(chosen, self.values, FREE)


Known = Mapping[int, int] | Mapping[str, Any]  # variable: value, by number or (of a graph with a vocabulary) by name
EvidenceLike = Evidence | Known | Sequence[Known] | ArrayLike | None


def clamped_values(graph: FactorGraph, evidence: EvidenceLike) -> Integers:
    """Clamped values ``[*batch, variables]``, :data:`FREE` where a variable is not observed.

    An :class:`Evidence` clamps its inputs; a mapping gives variable: value, by number or, of a graph that has a
    vocabulary, by name, and a list of mappings one for each example; an array has ``-1`` for free variables.
    """
    if evidence is None:
        return np.full(graph.variables, FREE, dtype=np.int64)
    if isinstance(evidence, Evidence):
        values = evidence.clamp()
    elif isinstance(evidence, Mapping):
        values = _from_mapping(graph, evidence)
    elif isinstance(evidence, list | tuple) and evidence and all(isinstance(row, Mapping) for row in evidence):
        values = np.stack([_from_mapping(graph, row) for row in evidence])
    else:
        values = _integers("evidence", evidence)  # type: ignore[arg-type]  # no mappings any more
    _check_values(graph, values)
    return values


def _from_mapping(graph: FactorGraph, evidence: Mapping[Any, Any]) -> Integers:
    values = np.full(graph.variables, FREE, dtype=np.int64)
    if graph.vocabulary is not None:
        evidence = graph.vocabulary.evidence(evidence)
    for variable, value in evidence.items():
        try:
            place, known = operator.index(variable), operator.index(value)
        except TypeError:
            named = isinstance(variable, str) and graph.vocabulary is None
            raise ValueError(
                f"evidence must map integers to integers, not {variable!r} to {value!r}"
                + ("; for names, give the graph or the system a vocabulary" if named else "")
            ) from None
        if not 0 <= place < graph.variables:
            raise ValueError(f"evidence names variable {place}; {variable_range(graph.variables)}")
        if known == FREE:
            raise ValueError(f"evidence gives variable {place} the value {known}; leave it out to keep it free")
        values[place] = known
    return values


def _integers(what: str, values: ArrayLike) -> Integers:
    """A copy as int64; an empty list has no dtype of its own and passes."""
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{what} must hold integers, not {array.dtype}")
    return as_int64(what, array)


def _check_values(graph: FactorGraph, values: Integers) -> None:
    if values.ndim == 0 or values.shape[-1] != graph.variables:
        raise ValueError(
            f"evidence of shape {values.shape} does not fit the graph: its last axis must have one value for "
            f"each of {graph.variables} variables"
        )
    bad = np.argwhere((values < FREE) | (values >= graph.cardinalities))
    if bad.size:
        place = tuple(int(index) for index in bad[0])
        raise ValueError(
            f"evidence gives variable {place[-1]}{_example(place)} the value {values[place]}; "
            f"it has values 0 to {graph.cardinalities[place[-1]] - 1}"
        )


def _example(place: tuple[int, ...]) -> str:
    """The example of ``place``, an index into ``[*batch, variables]``, for messages."""
    if len(place) == 1:
        return ""
    return f" (example {place[0] if len(place) == 2 else place[:-1]})"
