"""The hard rule inside a batch: examples stop one by one, and those that still run are gathered into full lanes.

In: a problem, a policy. Out: :class:`Stopped`, each example's beliefs when its policy stopped it. Stage: budget.
Messages stay packed as the kernels keep them from sweep to sweep; only beliefs, which are few, are looked at, and they
too as they stand. Where a look costs more than a sweep, several sweeps are made at a time and looked at together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.inference.base import Problem
from loopwise.inference.messages.compiled import Compiled, CompiledSolution
from loopwise.inference.messages.features import Course
from loopwise.inference.messages.kernel_run import KernelRun, RunResult, Workspace
from loopwise.inference.messages.message_passing import MessagePassing, default_engine
from loopwise.inference.messages.policy import Policy
from loopwise.inference.messages.schedules import Flooding, Sequential
from loopwise.inference.messages.storage import Arrangement
from loopwise.inference.messages.sub_batches import RANGES

# Examples are gathered anew when so small a share of the blocks would do: to gather them costs a few sweeps.
GATHER_BELOW = 0.5
# Numbers of messages that take about as long as the fixed part of a look: shorter sweeps are made several at a time.
LOOK = 150_000
# Numbers of a block that the cache holds: several sweeps of it while it is there cost less than coming back, which
# makes up for those that turn out to be too many.
CACHED = 100_000
AT_LEAST, AT_MOST = 3, 8  # sweeps at a time where that is so, and at all


class Stopped(NamedTuple):
    """Where each example's run ended."""

    states: Tensor  # [*batch, states]
    sweeps: Tensor  # int64 [*batch]
    change: Tensor  # [*batch], of beliefs in the last sweep
    engine: str
    domain: str


def run_until_stopped(problem: Problem, method: MessagePassing, policy: Policy, watched: Tensor) -> Stopped | None:
    """Sweeps until the policy stops each example; None where this way is not open and the run must be traced.

    That is so on other engines and schedules, without examples, and where the probability domain underflows.
    ``watched``: bool ``[*b, variables]``.
    """
    engine = method.engine or default_engine(problem.like.device)
    known = isinstance(method.schedule, Flooding | Sequential) and not bool(method.temperature == 0)
    if not isinstance(engine, Compiled) or not known or not problem.batch.numel() or not problem.graph.variables:
        return None
    with torch.no_grad():
        numbers = method.counting_numbers(problem.graph)
        none = replace(method, iterations=0, tolerance=0.0, stop=None, trace=False)
        start = engine.solve(problem, none, numbers)
        if not isinstance(start, CompiledSolution):
            return None
        return _GatheredRun(problem, start, policy, method.iterations, watched).to_the_end()


@dataclass
class _Team:
    """Examples that run side by side; only the ``live`` ones still count. Places are ``[block, lane]``."""

    run: KernelRun
    result: RunResult
    rows: Tensor  # int64 [blocks, lanes]: which example of the batch stands at each place
    live: Tensor  # bool [blocks, lanes]
    watched: Tensor  # bool [*places, variables]
    sweep: int = 0  # how many were made
    last: Tensor | None = None  # how much a belief of each changed at most in the last one, [blocks, lanes]

    @staticmethod
    def of(run: KernelRun, result: RunResult, rows: Tensor, watched: Tensor) -> _Team:
        """``rows``: of the run's examples. Lanes that are left over stand for none, and are dead from the start."""
        lanes = run.storage.in_block
        places = rows.new_full((run.blocks * lanes,), int(rows[0]))
        places[: len(rows)] = rows
        live = torch.arange(len(places)) < len(rows)
        seen = watched if watched.ndim == 1 else watched[places].reshape(run.blocks, lanes, -1)
        return _Team(run, result, places.reshape(-1, lanes), live.reshape(-1, lanes), seen)

    @property
    def beliefs(self) -> Tensor:
        """As they stand, ``[blocks, lanes, states]``, not a copy."""
        blocks, lanes = self.live.shape
        return torch.from_numpy(self.result.messages.beliefs).reshape(blocks, -1, lanes).transpose(1, 2)

    @property
    def blocks(self) -> np.ndarray:
        """Those that have live examples."""
        return np.flatnonzero(self.live.any(1).numpy())

    @property
    def sparse(self) -> bool:
        """Whether gathering the live ones would save enough."""
        packed = self.run.storage.arrangement is Arrangement.EXAMPLES
        return packed and -(-int(self.live.sum()) // self.live.shape[1]) <= GATHER_BELOW * self.run.blocks

    def at_once(self, limit: int) -> int:
        """How many sweeps to make before the next look."""
        size = self.run.block_size
        packed = self.run.storage.arrangement is Arrangement.EXAMPLES
        least = AT_LEAST if packed and size <= CACHED else 1
        return min(AT_MOST, limit - self.sweep, max(least, LOOK // max(len(self.blocks) * size, 1)))

    def lost(self) -> bool:
        """Whether digits of a live example were lost to underflow in the last sweep."""
        if len(self.run.semiring) >= 2:
            return False
        lowest = torch.from_numpy(self.result.lowest[: self.run.examples])
        floor = RANGES[lowest.dtype].floor
        return not bool((lowest > floor)[self.live.reshape(-1)[: self.run.examples]].all())


class _GatheredRun:
    def __init__(self, problem: Problem, start: CompiledSolution, policy: Policy, limit: int, watched: Tensor) -> None:
        self.problem, self.policy, self.limit, self.domain = problem, policy, limit, start.domain
        graph, options = problem.graph, start.session.options
        self.none, self.one = options, options._replace(iterations=1, enough=None)
        flat = watched.expand(*problem.batch, graph.variables).reshape(-1, graph.variables)
        same = bool((flat == flat[:1]).all())
        self.watched = flat[0] if same else flat
        self.teams = [_Team.of(part.run, part.result, part.index, self.watched) for part in start.session.parts]
        self.workspace = Workspace()
        self.states = start.states.new_empty(len(flat), graph.layout.states)
        self.sweeps = torch.zeros(len(flat), dtype=torch.int64)
        self.change = self.states.new_zeros(len(flat))

    def to_the_end(self) -> Stopped | None:
        while self.teams:
            team = self.teams.pop()
            if not self._advance(team):
                return None
            if bool(team.live.any()):
                self.teams.append(self._gathered(team) if team.sparse else team)
        batch = self.problem.batch
        if bool(torch.isnan(self.states).any()):
            return None
        return Stopped(
            self.states.reshape(*batch, -1),
            self.sweeps.reshape(batch),
            self.change.reshape(batch),
            "compiled",
            self.domain,
        )

    def _advance(self, team: _Team) -> bool:
        """Some sweeps and a look at each; False if digits were lost to underflow."""
        count, (blocks, lanes) = team.at_once(self.limit), team.live.shape
        trace, moved = team.run.resume(self.one._replace(iterations=count), team.result, team.blocks, self.workspace)
        if team.lost():
            return False
        course = Course(
            self.problem.graph,
            torch.from_numpy(trace).reshape(count + 1, blocks, -1, lanes).transpose(2, 3),
            team.watched,
            self.limit,
            team.sweep + 1,
            team.last,
            torch.from_numpy(moved[:, : blocks * lanes].reshape(count, blocks, lanes).copy()),
        )
        stop = self.policy(course) > 0
        team.sweep += count
        if team.sweep == self.limit:
            stop[-1] = True
        self._retire(team, course, stop & team.live)
        team.last = course.largest[-1]
        return True

    def _retire(self, team: _Team, course: Course, stop: Tensor) -> None:
        """Keeps what examples believed where they first stopped, and forgets them. ``stop``: ``[sweeps, *places]``."""
        done = stop.any(0)
        if not bool(done.any()):
            return
        first = stop.to(torch.uint8).argmax(0)[done]
        block, lane = done.nonzero(as_tuple=True)
        rows = team.rows[done]
        self.states[rows] = course.now[first, block, lane]
        self.sweeps[rows] = first + course.first
        self.change[rows] = course.largest[first, block, lane]
        team.live &= ~done

    def _gathered(self, team: _Team) -> _Team:
        """The live examples of a team in fewer blocks, with their messages."""
        flat = team.live.reshape(-1)
        run, result = team.run.gathered(self.none, team.result, flat.nonzero()[:, 0].numpy())
        new = _Team.of(run, result, team.rows.reshape(-1)[flat], self.watched)
        new.sweep = team.sweep
        if team.last is not None:
            known = team.last.reshape(-1)[flat]
            new.last = known[-1:].expand(new.live.numel()).clone()
            new.last[: len(known)] = known
            new.last = new.last.reshape(new.live.shape)
        return new
