"""How ``make test`` hands files to its processes: to every other one from the end of the list.

Neighbours in the list need the same kernels. Two processes that took them in turns would compile these at the same
time, each for itself; from both ends they meet only where the quick files are.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling


class BothEnds(LoadFileScheduling):
    """As ``--dist loadfile --no-loadscope-reorder``, but from both ends of the list."""

    def _assign_work_unit(self, node: Any) -> None:
        if self.nodes.index(node) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
