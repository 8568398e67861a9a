"""Two processes take files from the two ends of the list."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace

import pytest

xdist = pytest.importorskip("xdist.scheduler", reason="pytest-xdist is not installed")


def test_files_are_taken_from_both_ends() -> None:
    from oracles.both_ends import BothEnds

    class Node(SimpleNamespace):
        __hash__ = object.__hash__

    files = "abcde"
    nodes = [Node(sent=[]), Node(sent=[])]
    for node in nodes:
        node.send_runtest_some = node.sent.extend
    queue = BothEnds.__new__(BothEnds)
    queue.assigned_work = OrderedDict((node, {}) for node in nodes)
    queue.registered_collections = {node: list(files) for node in nodes}
    queue.workqueue = OrderedDict((name, {name: False}) for name in files)
    for turn in (0, 1, 1, 0, 1):
        queue._assign_work_unit(nodes[turn])
    assert [[files[at] for at in node.sent] for node in nodes] == [["a", "b"], ["e", "d", "c"]]
    assert not queue.workqueue
