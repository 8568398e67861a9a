"""Ranks, verdicts and cells of the study of tables, from runs written by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from studies.tables.claims import RATES, TableRun, cells_of, claims_of
from studies.tables.data import DESIGN, SET_ASIDE
from studies.tables.methods import BOOSTING, MAJORITY, METHODS, NAIVE, OURS

Score = Callable[[str, str], tuple[float, float]]  # accuracy and log-loss of a method at a rate


def run(score: Score, table: str = "zoo", trained_with: float = 0.0, outputs: int = 1) -> TableRun:
    methods = {
        method: {"scores": {rate: list(score(method, rate)) for rate in RATES}, "seconds": 1.0}
        for method in (*METHODS, MAJORITY)
    }
    return TableRun(table, 0, trained_with, outputs, {"rows": 100, "methods": methods})


def ours_best(method: str, rate: str) -> tuple[float, float]:
    return {OURS: (0.9, 0.3), MAJORITY: (0.5, 1.0)}.get(method, (0.8 if method != BOOSTING else 0.7, 0.4))


def everywhere(score: Score) -> list[TableRun]:
    return [run(score, table, rate) for table in SET_ASIDE for rate in (0.0, 0.2)]


def verdicts(found: list[TableRun]) -> dict[str, bool | None]:
    return {claim.id: claim.holds for claim in claims_of(found, (0.0, 0.2))}


def test_ranks_share_ties() -> None:
    ranks = run(ours_best).ranks("0.1", 0)
    assert ranks[OURS] == 1 and ranks[BOOSTING] == len(METHODS)
    assert ranks[NAIVE] == pytest.approx((2 + len(METHODS) - 1) / 2) and MAJORITY not in ranks
    assert run(ours_best).ranks("0.1", 1)[NAIVE] == pytest.approx((2 + len(METHODS)) / 2)


def test_tables_weigh_the_same_and_designs_do_not_count() -> None:
    def ours_worst(method: str, rate: str) -> tuple[float, float]:
        return (0.1, 2.0) if method == OURS else ours_best(method, rate)

    found = [run(ours_best), run(ours_best, trained_with=0.2), run(ours_worst, "hepatitis"), run(ours_worst, DESIGN[0])]
    assert TableRun.mean_rank(found, OURS, 0.1, 0, SET_ASIDE) == pytest.approx((1 + len(METHODS)) / 2)
    assert TableRun.mean_rank([], OURS, 0.1, 0, SET_ASIDE) is None


def test_nothing_is_decided_before_every_table_was_run_both_ways() -> None:
    found = everywhere(ours_best)
    assert set(verdicts(found).values()) == {True}
    assert set(verdicts(found[1:]).values()) == {None}


def test_what_does_not_hold() -> None:
    def behind_at_half(method: str, rate: str) -> tuple[float, float]:
        return (0.35, 0.3) if method == OURS and rate == "0.5" else ours_best(method, rate)

    assert verdicts(everywhere(behind_at_half)) == {"ranks": False, "loss": True, "majority": False, "whole": True}

    def behind_when_whole(method: str, rate: str) -> tuple[float, float]:
        return (0.7, 0.5) if method == OURS and rate == "0" else ours_best(method, rate)

    assert verdicts(everywhere(behind_when_whole)) == {"ranks": True, "loss": True, "majority": True, "whole": False}


def test_cells_keep_several_outputs_apart() -> None:
    found = [run(ours_best), run(ours_best, "hepatitis", outputs=3)]
    cells = {cell.key: cell for cell in cells_of(found)}
    assert cells["accuracy", OURS, "10% missing"].ours == 0.9 and cells["accuracy", OURS, "10% missing"].n == 1
    assert cells["several outputs, accuracy", MAJORITY, "10% missing"].ours == 0.5
    assert cells["rank by log-loss", OURS, "70% missing"].ours == 1
    assert ("accuracy by table", "hepatitis", "0% missing") not in cells
