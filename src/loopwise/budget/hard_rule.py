"""The hard rule inside a batch: examples stop one by one, and those that still run are gathered into full lanes.

In: a problem, a policy. Out: :class:`Stopped`, each example's beliefs when its policy stopped it. Stage: budget.
Messages stay packed as the kernels keep them from sweep to sweep; only beliefs, which are few, are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.budget.features import Course
from loopwise.budget.policy import Policy
from loopwise.graph.layout import Layout
from loopwise.inference.base import Problem
from loopwise.inference.compiled import Compiled, CompiledSolution
from loopwise.inference.kernel_run import Options, Record, Room
from loopwise.inference.message_passing import MessagePassing, default_engine
from loopwise.inference.parts import RANGES, Keep, Part, solve
from loopwise.inference.schedules import Flooding, Sequential
from loopwise.inference.storage import Arrangement
from loopwise.inference.threads import available_threads, in_threads
from loopwise.kernels.arithmetic import LANES

# Examples are gathered anew when so small a share of the blocks would do: to repack costs about three sweeps.
GATHER_BELOW = 0.6


class Stopped(NamedTuple):
    """Where each example's run ended."""

    states: Tensor  # [*batch, states]
    sweeps: Tensor  # int64 [*batch]
    residual: Tensor  # [*batch], the change of the last sweep
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
        none = replace(method, iterations=0, tolerance=0.0, trace=False)
        start = engine.solve(problem, none, numbers)
        if not isinstance(start, CompiledSolution):
            return None
        run = _Run(start, policy, method.iterations, engine.threads or available_threads())
        return run.to_the_end(problem, watched)


@dataclass
class _Team:
    """Examples that run side by side in one part; only the ``live`` ones still count."""

    part: Part
    rows: Tensor  # which example of the batch each of the part is
    live: Tensor  # places within the part
    before: Tensor  # beliefs of the live ones after the last sweep
    last: Tensor | None = None  # how much a belief of each changed at most in that sweep

    @property
    def sparse(self) -> bool:
        """Whether gathering the live ones would save enough."""
        packed = self.part.run.storage.arrangement is Arrangement.EXAMPLES
        blocks = -(-len(self.live) // LANES)
        return packed and blocks <= GATHER_BELOW * self.part.run.blocks


class _Run:
    def __init__(self, start: CompiledSolution, policy: Policy, limit: int, threads: int) -> None:
        self.policy, self.limit, self.threads = policy, limit, threads
        self.rooms = [Room() for _ in range(threads)]
        options = start.session.options
        self.none = options
        self.one = Options(options.schedule, 1, 0.0, options.damping)
        self.teams = [_team(part, part.index) for part in start.session.parts]
        self.domain, count = start.domain, sum(len(team.rows) for team in self.teams)
        like = self.teams[0].before
        self.states = like.new_empty(count, like.shape[-1])
        self.sweeps = torch.zeros(count, dtype=torch.int64)
        self.residual = like.new_zeros(count)

    def to_the_end(self, problem: Problem, watched: Tensor) -> Stopped | None:
        graph, batch = problem.graph, problem.batch
        flat = watched.expand(*batch, graph.variables).reshape(-1, graph.variables)
        for sweep in range(1, self.limit + 1):
            for team in self.teams:
                now = self._advance(team)
                if now is None:
                    return None
                trace, rows = torch.stack([team.before, now]), team.rows[team.live]
                course = Course(graph, trace, flat[rows], self.limit, sweep, team.last)
                stop = self.policy(course)[-1] > 0
                if sweep == self.limit:
                    stop = torch.ones_like(stop)
                self._retire(team, now, course.largest[-1], stop, sweep)
            self.teams = [part for team in self.teams if len(team.live) for part in self._gathered(team, graph.layout)]
            if not self.teams:
                break
        return Stopped(
            self.states.reshape(*batch, -1),
            self.sweeps.reshape(batch),
            self.residual.reshape(batch),
            "compiled",
            self.domain,
        )

    def _advance(self, team: _Team) -> Tensor | None:
        """One sweep; the beliefs of the live examples, None if digits were lost to underflow."""
        part = team.part
        if part.run.storage.arrangement is Arrangement.EXAMPLES:
            now, lowest = self._sweep_blocks(part, team.live.numpy())
        else:
            part.journey = part.run.start(self.one, part.journey.m, Record())
            now, lowest = part.states[team.live], torch.from_numpy(part.journey.lowest)[team.live]
        floor = RANGES[now.dtype].floor if len(part.run.semiring) < 2 else -torch.inf
        return now if bool((lowest > floor).all()) and not bool(torch.isnan(now).any()) else None

    def _sweep_blocks(self, part: Part, live: np.ndarray) -> tuple[Tensor, Tensor]:
        """One sweep of the blocks that have live examples, each in memory that is used again and stays in the cache."""
        run, size = part.run, part.run.block_size
        blocks, first = np.unique(live // LANES, return_index=True)
        groups = np.split(live % LANES, first[1:])
        found: list[tuple[Tensor, Tensor]] = [(torch.empty(0), torch.empty(0))] * len(blocks)
        threads = min(run.parts(len(live) * run.storage.layout.edges), len(blocks))

        def work(thread: int) -> None:
            for place in range(len(blocks) * thread // threads, len(blocks) * (thread + 1) // threads):
                block, lanes = int(blocks[place]), torch.from_numpy(groups[place])
                messages = part.journey.m[block * size : (block + 1) * size]
                journey = run.again(self.one, messages, Record(), block, self.rooms[thread])
                beliefs = torch.from_numpy(journey.beliefs).reshape(-1, LANES).T
                found[place] = beliefs[lanes], torch.from_numpy(journey.lowest)[block * LANES + lanes]

        in_threads(threads, work)
        return torch.cat([beliefs for beliefs, _ in found]), torch.cat([lowest for _, lowest in found])

    def _retire(self, team: _Team, now: Tensor, change: Tensor, stop: Tensor, sweep: int) -> None:
        """Keeps what stopped examples believe, and forgets them."""
        if not bool(stop.any()):
            team.last, team.before = change, now
            return
        rows = team.rows[team.live[stop]]
        self.states[rows] = now[stop]
        self.sweeps[rows] = sweep
        self.residual[rows] = change[stop]
        team.live, team.last, team.before = team.live[~stop], change[~stop], now[~stop]

    def _gathered(self, team: _Team, layout: Layout) -> list[_Team]:
        """The team, or its live examples in fewer blocks with their messages."""
        if not team.sparse:
            return [team]
        old = team.part
        messages = old.run.storage.unpack_messages(old.journey.m, len(old.index))[team.live]
        neutral = old.run.neutral
        teams = []
        for part in solve(old.given.select(team.live), self.none, layout, self.threads, False, Keep()):
            part.journey.m[:] = part.run.storage.pack_messages(messages[part.index], neutral)
            live = torch.arange(len(part.index))
            last = None if team.last is None else team.last[part.index]
            teams.append(_Team(part, team.rows[team.live[part.index]], live, team.before[part.index], last))
        return teams


def _team(part: Part, rows: Tensor) -> _Team:
    return _Team(part, rows, torch.arange(len(part.index)), part.states)
