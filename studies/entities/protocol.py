"""What the study of entities runs: tables, labels and tools, each draw of labels a run of its own.

In: a mode. Out: jobs. Draw after draw, so that what is finished covers all tables alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from studies.harness.results import FULL, QUICK
from studies.harness.runs import file_name

OURS, DEDUPE, SPLINK = "loopwise", "dedupe", "splink"
TOOLS = (DEDUPE, SPLINK, OURS)
AVERAGE, ENTITIES = f"{OURS}, average linkage", f"{OURS}, model of entities"  # ways of ours, chosen or not
NONE, IDS = "none", "ids"
SETTINGS = (NONE, "20", "100", "500", IDS)
ALL_IDS = 1000  # pairs of the training half that a tool is given which cannot take ids


@dataclass(frozen=True)
class EntitiesProtocol:
    """How much is run. ``minutes``, ``gigabytes``: of processor time and memory, beyond which a run is given up."""

    problems: tuple[str, ...]
    settings: tuple[str, ...]
    tools: tuple[str, ...]
    draws: int
    minutes: float
    gigabytes: float = 8.0


PROTOCOLS = {
    QUICK: EntitiesProtocol(("made",), (NONE, "100", IDS), (OURS,), 1, 10.0),
    FULL: EntitiesProtocol(("chicago", "febrl3", "cora", "patstat", "abt-buy"), SETTINGS, TOOLS, 3, 3.0),
}


@dataclass(frozen=True)
class EntityJob:
    """One tool on one table with one draw of labels."""

    problem: str
    setting: str
    tool: str
    draw: int

    @property
    def name(self) -> str:
        return f"{self.problem}, {self.tool}, labels {self.setting}, draw {self.draw + 1}"

    def path(self, folder: Path) -> Path:
        return folder / file_name(self.problem, self.tool, self.setting, self.draw)


def jobs(protocol: EntitiesProtocol) -> list[EntityJob]:
    """Without labels there is one draw only; dedupe needs labels."""
    return [
        EntityJob(problem, setting, tool, draw)
        for draw in range(protocol.draws)
        for setting in protocol.settings
        for problem in protocol.problems
        for tool in protocol.tools
        if not (setting == NONE and (draw or tool == DEDUPE))
    ]
