"""At most one of several variables is ON, as one factor. In: log messages. Out: messages. Stage: structure."""

from __future__ import annotations

from loopwise.graph.structured.one_of import OneOf


class AtMostOne(OneOf):
    r"""1 if no or one of its binary variables is ON, else 0 (ATMOST1 of Smith & Eisner 2008).

    Parameters
    ----------
    variables: how many binary variables there are.

    >>> import torch
    >>> message = AtMostOne(3).messages(torch.zeros(6, dtype=torch.float64)).exp()
    >>> [round(value, 3) for value in message[:2].tolist()]  # OFF, ON
    [0.75, 0.25]
    """

    @property
    def none_allowed(self) -> bool:
        return True
