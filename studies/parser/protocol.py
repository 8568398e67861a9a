"""Which parsers the parsing study trains, and for what.

In: a :class:`ParserProtocol`. Out: jobs, each of which leaves one file. A parser that several tables need is trained
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loopwise.apps.parser.options import Pruning
from studies.harness.results import FULL, QUICK
from studies.parser.data import ENGLISH

CLL, L2, L2_AR, AR = "CLL", "L2", "L2+AR", "AR"
UNARY, GRAND, SIB, BOTH = "unary", "grand.", "sib.", "grand.+sib."
FACTORS = {UNARY: (), GRAND: ("grandparent",), SIB: ("sibling",), BOTH: ("grandparent", "sibling")}
EXACT = 0  # stands for exact inference where numbers of iterations stand otherwise
FIGURE3, FIGURE4, TABLE1, TABLE2 = "Figure 3", "Figure 4", "Table 1", "Table 2"
PRIOR, RATES, ACCURACY, LONGER, CALIBRATION = "Prior", "Learning rates", "Accuracy", "Ten epochs", "Calibration"
ITEMS = (FIGURE3, FIGURE4, TABLE1, RATES, PRIOR, LONGER, ACCURACY, CALIBRATION, TABLE2)
CALIBRATED = (1, 2, 4)  # iterations at which calibration is looked at
BUDGET = 4  # iterations of Figure 4, Table 1, and where rates and priors are looked at


@dataclass(frozen=True)
class ParserProtocol:
    """How much of the study to run. Rates are of AdaGrad; None finds one by trials before each run."""

    english: str = ENGLISH
    others: tuple[str, ...] | None = None  # treebanks of Table 2 beside the English one; None: all there are
    english_train: int = 3000
    train: int = 3000
    dev: int = 500
    test: int | None = None
    epochs: int = 6
    whole_epochs: int = 10  # on all English sentences, for accuracy and the analysis of errors; 0: not trained
    iterations: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # of Figure 3
    risk_iterations: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # where annealed risk is trained, too
    table_iterations: tuple[int, ...] = (1, 2, 4, 8)  # of Table 2
    priors: tuple[float, ...] = (1.0, 10.0)  # times the number of sentences; the scripts' and the printed one
    longer: int = 10  # epochs as published, beside ours; 0: not trained
    longer_priors: tuple[float, ...] = (0.0, 10.0)  # none, and the printed one
    rates: tuple[float, ...] = (0.005, 0.02)  # tried beside those that all other runs have
    rate_cll: float | None = 0.01
    rate_l2: float | None = 0.01
    rate_ar: float | None = 0.01
    rate_after: float | None = 0.0003  # of annealed risk after L2
    size: int = 20_000_000
    cutoff: int = 3
    pruning: Pruning = Pruning()  # noqa: RUF009 (frozen)

    @property
    def whole(self) -> str:
        """The name of the English treebank with all its training sentences."""
        return f"{self.english}-all"

    def rate(self, loss: str) -> float | None:
        """Of one objective; ``L2_AR`` stands for its second stage."""
        return {CLL: self.rate_cll, L2: self.rate_l2, AR: self.rate_ar, L2_AR: self.rate_after}[loss]


PROTOCOLS = {
    FULL: ParserProtocol(),
    QUICK: ParserProtocol(
        others=("Hungarian-Szeged", "Slovenian-SST"),
        english_train=500,
        train=300,
        dev=150,
        test=400,
        epochs=4,
        whole_epochs=0,
        iterations=(1, 2, 4),
        risk_iterations=(1, 4),
        table_iterations=(1, 2, 4),
        priors=(),
        longer=0,
        rates=(),
        size=2_000_000,
        pruning=Pruning(size=1_000_000, folds=2),
    ),
}


@dataclass(frozen=True)
class Preparation:
    """Reading and pruning a treebank."""

    treebank: str

    @property
    def name(self) -> str:
        return f"{self.treebank}: pruning"

    @property
    def cost(self) -> float:
        return 1.0

    def path(self, folder: Path) -> Path:
        return folder / f"{self.treebank}.json"


@dataclass(frozen=True)
class ParserTraining:
    """One parser. ``prior``: its strength times the number of sentences. ``rate``, ``epochs``: not the protocol's."""

    treebank: str
    factors: str
    iterations: int
    loss: str
    prior: float = 0.0
    rate: float | None = None
    epochs: int | None = None

    @property
    def name(self) -> str:
        inference = "exact" if self.iterations == EXACT else f"{self.iterations} iterations"
        prior = f", prior {self.prior:g}" if self.prior else ""
        rate = "" if self.rate is None else f", rate {self.rate:g}"
        epochs = "" if self.epochs is None else f", {self.epochs} epochs"
        return f"{self.treebank}: {self.factors}, {inference}, {self.loss}{prior}{rate}{epochs}"

    @property
    def cost(self) -> float:
        """Measured on EWT, an epoch with 1 iteration being 1."""
        second = 0.45 if self.factors == UNARY else 0.85 + 0.15 * self.iterations
        exact = 3.0 if self.iterations == EXACT else 6.0 if self.treebank.endswith("-all") else 1.0
        longer = 1.0 if self.epochs is None else self.epochs / 6
        return second * exact * (2.0 if self.loss == L2_AR else 1.0) * (1.5 if self.prior else 1.0) * longer

    def path(self, folder: Path) -> Path:
        factors = self.factors.replace(".", "").replace("+", "-")
        options = f"-prior{self.prior:g}" if self.prior else "" if self.rate is None else f"-rate{self.rate:g}"
        options += "" if self.epochs is None else f"-epochs{self.epochs}"
        return folder / f"{self.treebank}-{factors}-{self.iterations}-{self.loss.replace('+', '-')}{options}.json"


ParserJob = Preparation | ParserTraining


def first_order(treebank: str, loss: str) -> ParserTraining:
    """Unary factors only, for which one iteration is exact."""
    return ParserTraining(treebank, UNARY, 1, loss)


def trainings(item: str, protocol: ParserProtocol, treebanks: Sequence[str]) -> list[ParserTraining]:
    """The parsers of one table or figure; ``treebanks``: those of Table 2. A parser may be of several."""
    english = protocol.english
    if item == FIGURE3:
        return [
            ParserTraining(english, BOTH, count, loss)
            for count in protocol.iterations
            for loss in (CLL, *((L2_AR, AR) if count in protocol.risk_iterations else ()), L2)
        ]
    if item == FIGURE4:
        models = [(UNARY, 1), (GRAND, BUDGET), (SIB, BUDGET), (BOTH, BUDGET)]
        return [ParserTraining(english, factors, count, loss) for factors, count in models for loss in (CLL, L2_AR, L2)]
    if item == TABLE1:
        return [ParserTraining(english, GRAND, count, loss) for count in (BUDGET, EXACT) for loss in (CLL, L2)]
    if item == PRIOR:
        return [ParserTraining(english, BOTH, BUDGET, loss, prior) for prior in protocol.priors for loss in (CLL, L2)]
    if item == LONGER:
        return [
            ParserTraining(english, BOTH, BUDGET, loss, prior, epochs=protocol.longer)
            for prior in (protocol.longer_priors if protocol.longer else ())
            for loss in (CLL, L2)
        ]
    if item == CALIBRATION:
        counts = [count for count in CALIBRATED if count in protocol.iterations]
        return [
            *(first_order(english, loss) for loss in (CLL, L2)),
            *(ParserTraining(english, BOTH, count, loss) for count in counts for loss in (CLL, L2)),
        ]
    if item == ACCURACY:
        models = [(UNARY, 1), (BOTH, BUDGET)] if protocol.whole_epochs else []
        return [ParserTraining(protocol.whole, factors, count, L2) for factors, count in models]
    if item == RATES:
        return [
            ParserTraining(english, BOTH, BUDGET, loss, rate=rate)
            for loss in (CLL, L2, AR)
            for rate in (None, *protocol.rates)
        ]
    models = [(UNARY, 1), *((BOTH, count) for count in protocol.table_iterations)]
    return [
        ParserTraining(name, factors, count, loss)
        for name in treebanks
        for factors, count in models
        for loss in (CLL, L2)
    ]


def jobs(protocol: ParserProtocol, items: Iterable[str], known: Sequence[str]) -> list[ParserJob]:
    """All jobs of some items, treebank after treebank, each once. ``known``: the treebanks there are."""
    treebanks = chosen_treebanks(protocol, known)
    wanted = [job for item in ITEMS if item in set(items) for job in trainings(item, protocol, treebanks)]
    wanted = list(dict.fromkeys(wanted))
    found: list[ParserJob] = []
    for name in sorted(dict.fromkeys(job.treebank for job in wanted), key=lambda name: name != protocol.english):
        found += [Preparation(name), *(job for job in wanted if job.treebank == name)]
    return found


def in_stages(todo: Sequence[ParserJob]) -> list[list[ParserJob]]:
    """Jobs that may run side by side, stage after stage; the last has all, to make up for what is missing.

    Treebanks are pruned first: parsers of one treebank all read what that leaves. L2 that goes on to annealed risk is
    what L2 alone gives, and writes both files, so the shorter runs wait for the longer ones."""
    covered = {replace(job, loss=L2) for job in todo if isinstance(job, ParserTraining) and job.loss == L2_AR}
    return [[job for job in todo if isinstance(job, Preparation)], [job for job in todo if job not in covered], [*todo]]


def chosen_treebanks(protocol: ParserProtocol, known: Sequence[str]) -> list[str]:
    """Those of Table 2: the English one and the others that the protocol wants."""
    wanted = known if protocol.others is None else [name for name in known if name in protocol.others]
    return [protocol.english, *(name for name in wanted if name != protocol.english)]
