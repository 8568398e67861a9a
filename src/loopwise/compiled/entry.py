"""Calling a kernel again and again with arguments of the same types.

In: a kernel. Out: a function. Below the stages. At every call Numba looks at each argument, those inside of tuples too,
to find the code compiled for their types: with forty arrays that takes as long as a small run of BP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Entry:
    """``kernel`` for arguments of the types that the first call has: from the second call on, none is looked at.

    Who calls it sees to it that types never differ. Where Numba is switched off, a kernel is an ordinary function.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel, self._used = kernel, False
        self._found: Callable[..., Any] | None = None

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        if self._found is not None:
            return self._found(*arguments)
        if self._used and hasattr(self.kernel, "typeof_pyval"):
            types = tuple([self.kernel.typeof_pyval(argument) for argument in arguments])
            self._found = self.kernel.compile(types)  # has been by the first call: what that ran
        self._used = True
        return self.kernel(*arguments)
