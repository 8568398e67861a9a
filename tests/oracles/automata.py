"""Factors over binary variables that a small automaton reads, and their messages by going through all assignments."""

from __future__ import annotations

from itertools import product

import numpy as np

from loopwise.graph.structured.kernels.automaton import Automata
from oracles.trees import log_sum

INF = np.inf
# [state, value] to the next state; -1: none.
PARITY = [[0, 1], [1, 0]]
ONE_OF = [[0, 1], [1, -1]]


def automata(moves: list[list[int]], *variables: int) -> Automata:
    """Factors of the same kind over so many variables each, side by side."""
    states = len(moves)
    sizes = np.array(variables, np.int64)
    tables = [np.tile(np.array(moves, np.int64), (count, 1, 1)).reshape(-1) for count in variables]
    return Automata(
        slot_start=np.concatenate([[0], np.cumsum(2 * sizes)[:-1]]),
        variables=sizes,
        states=np.full(len(variables), states),
        move_start=np.concatenate([[0], np.cumsum(2 * states * sizes)[:-1]]),
        moves=np.concatenate(tables),
        final_start=states * np.arange(len(variables)),
    )


def messages(moves: list[list[int]], count: int, final: np.ndarray, incoming: np.ndarray) -> np.ndarray:
    """Normalised log messages ``[count, 2]`` to the variables of one factor, by all assignments."""
    sent = np.full((count, 2), -INF)
    for values in product((0, 1), repeat=count):
        state = 0
        for value in values:
            state = moves[state][value] if state >= 0 else -1
        if state < 0:
            continue
        score = final[state] + sum(incoming[at, value] for at, value in enumerate(values))
        for at, value in enumerate(values):
            sent[at, value] = np.logaddexp(sent[at, value], score - incoming[at, value])
    return sent - np.array([[log_sum(row)] for row in sent])
