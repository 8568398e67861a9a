"""What the study of decoders runs: settings, each counted chunk by chunk, in two sizes.

In: a mode. Out: settings and the jobs that count them. Counts of chunks add up, so that a study that was stopped goes
on, and one that is cut short has something of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from studies.harness.results import FULL, QUICK
from studies.harness.runs import file_name

GROSS, CIRCUIT, WORDS = "gross code, independent flips", "gross code, circuit noise", "classical codes, Gaussian noise"
SEED = 2026
GROSS_SHOTS, CIRCUIT_SHOTS, WORD_SHOTS = 5_000, 512, 50_000  # of a chunk
RELAY, BP_OSD = "relay-BP", "BP+OSD"
SLOW = (RELAY, BP_OSD)  # under circuit noise: they decode by themselves
SIONNA = "Sionna"  # so does this one, words of what it has published figures of
PUBLISHED = ("BCH_N63_K45", 10)  # code and sweeps


@dataclass(frozen=True)
class Setting:
    """One code under one noise. ``level``: the probability of a flip, or Eb/N0 in dB; ``sweeps``: of words."""

    kind: str
    code: str
    level: float
    sweeps: int = 0

    @property
    def name(self) -> str:
        if self.kind == WORDS:
            return f"{self.code}, {self.sweeps} sweeps, {self.level:g} dB"
        return f"{self.kind}, p = {self.level:g}"


@dataclass(frozen=True)
class ChunkJob:
    """So many shots of a setting, the same for all that decode them. ``alone``: the only one that does in this job."""

    setting: Setting
    number: int
    shots: int
    alone: str = ""

    @property
    def name(self) -> str:
        who = f", {self.alone}" if self.alone else ""
        return f"{self.setting.name}{who}: chunk {self.number + 1}"

    def path(self, folder: Path) -> Path:
        """Where its counts are kept."""
        return folder / file_name(self.setting.name, *([self.alone] if self.alone else []), self.number)


@dataclass(frozen=True)
class DecoderProtocol:
    """How much is run."""

    gross_chunks: tuple[tuple[float, int], ...]  # by the probability of a flip: failures are rarer where it is low
    word_chunks: int
    circuit_chunks: int
    words: tuple[tuple[str, tuple[float, ...], tuple[int, ...]], ...]  # codes, Eb/N0, sweeps
    pool: int  # legs that some are picked from
    tried_on: int  # shots
    scale_shots: int  # that the scale of the min-sum is chosen on
    steps: int  # of training for classical codes


def settings(protocol: DecoderProtocol) -> dict[Setting, tuple[int, int]]:
    """How many chunks of how many shots each setting has."""
    found = {Setting(GROSS, "gross", p): (chunks, GROSS_SHOTS) for p, chunks in protocol.gross_chunks}
    if protocol.circuit_chunks:
        found[Setting(CIRCUIT, "gross", 0.003)] = protocol.circuit_chunks, CIRCUIT_SHOTS
    for code, levels, all_sweeps in protocol.words:
        for sweeps in all_sweeps:
            found |= {Setting(WORDS, code, level, sweeps): (protocol.word_chunks, WORD_SHOTS) for level in levels}
    return found


def jobs(protocol: DecoderProtocol) -> list[ChunkJob]:
    """The first chunk of every setting, then the second, and so on; then circuit noise in the same way, each chunk by
    relay-BP and BP+OSD, too, before the next one, so that there are pairs wherever time is cut; at last Sionna."""
    wanted = settings(protocol)
    circuit = {setting: sizes for setting, sizes in wanted.items() if setting.kind == CIRCUIT}
    others = [(setting, "", *sizes) for setting, sizes in wanted.items() if setting not in circuit]
    pairs = [(setting, who, *sizes) for setting, sizes in circuit.items() for who in ("", *SLOW)]
    last = [(one, SIONNA, *sizes) for one, sizes in wanted.items() if (one.code, one.sweeps) == PUBLISHED]
    return [
        ChunkJob(setting, number, shots, who)
        for group in (others, pairs, last)
        for number in range(max((chunks for _, _, chunks, _ in group), default=0))
        for setting, who, chunks, shots in group
        if number < chunks
    ]


PROTOCOLS = {
    QUICK: DecoderProtocol(((0.03, 4), (0.05, 4)), 4, 0, (("BCH_N63_K45", (6.0,), (10,)),), 40, 60_000, 5_000, 150),
    FULL: DecoderProtocol(
        ((0.03, 240), (0.05, 60)),
        4,
        196,
        (
            ("BCH_N63_K45", (4.0, 5.0, 6.0), (10,)),
            ("BCH_N63_K36", (4.0, 5.0, 6.0), (5, 20)),
            ("LDPC_N121_K60", (3.0, 4.0, 5.0), (5, 20)),
            ("POLAR_N64_K32", (4.0, 5.0, 6.0), (5, 20)),
        ),
        100,
        300_000,
        40_000,
        300,
    ),
}
