"""Exactly one of several variables is ON, as one factor. In: log messages. Out: messages. Stage: structure."""

from __future__ import annotations

from loopwise.graph.structured.one_of import OneOf


class ExactlyOne(OneOf):
    r"""1 if exactly one of its binary variables is ON, else 0 (XOR of Martins et al. 2015; EXACTLY1 of Smith & Eisner
    2008): a token has one head, a mention one antecedent.

    Parameters
    ----------
    variables: how many binary variables there are.

    >>> import torch
    >>> message = ExactlyOne(3).messages(torch.zeros(6, dtype=torch.float64)).exp()
    >>> [round(value, 3) for value in message[:2].tolist()]  # OFF, ON
    [0.667, 0.333]
    """

    @property
    def none_allowed(self) -> bool:
        return False
