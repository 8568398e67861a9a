"""The UAI 2014 benchmark on made-up models: its measures, its verdicts, its page, that a rerun continues."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from loopwise.formats import (
    TableModel,
    atomic_write,
    write_evidence,
    write_fg,
    write_mar,
    write_pr,
    write_uai,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import uai2014
import uai2014_page
from common import DEFAULT_DATA, Instance, markdown_table
from oracles.enumeration import enumerate_model

LIBDAI = Path(os.environ.get("LOOPWISE_DATA", DEFAULT_DATA)) / "uai" / "libdai"
MIXED = np.array([0, 0, 1, 1, 1, 2])  # the variable of each state: 2, 3 and 1 values

pytestmark = pytest.mark.filterwarnings("ignore::loopwise.notices.LoopwiseWarning")


def small_model(seed: int, variables: int = 6, coupling: float = 1.0) -> TableModel:
    """A ring with a chord and a field on each variable, of 2 and 3 values in turn."""
    rng = np.random.default_rng(seed)
    cards = [2 + variable % 2 for variable in range(variables)]
    scopes = [(v,) for v in range(variables)] + [(v, (v + 1) % variables) for v in range(variables)] + [(0, 3)]
    return TableModel.of(
        cards, [(scope, np.exp(coupling * rng.normal(size=[cards[v] for v in scope]))) for scope in scopes]
    )


def truth(instance: Instance) -> tuple[list[np.ndarray], float]:
    """Marginals and log10 Z by enumeration; evidence is one more factor that forbids everything else."""
    factors = list(instance.model.log_factors())
    for variable, value in instance.evidence.items():
        possible = np.arange(instance.model.cardinalities[variable]) == value
        factors.append(((variable,), np.where(possible, 0.0, -np.inf)))
    graph, tables = uai2014.FactorGraph.from_factors(instance.model.cardinalities, factors)
    answer = enumerate_model(graph, tables)
    return answer.variables, answer.log_partition / math.log(10)


def reference_of(instance: Instance) -> uai2014.Reference:
    marginals, log10_z = truth(instance)
    return uai2014.Reference(np.concatenate(marginals), log10_z)


def test_mean_error_weighs_variables_equally_and_skips_observed_ones() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.random(6), rng.random(6)
    for observed in (np.array([False, False, False]), np.array([False, True, False])):
        each = [np.abs(ours - theirs)[variable == MIXED].mean() for variable in range(3) if not observed[variable]]
        assert uai2014.mean_error(ours, theirs, MIXED, observed) == pytest.approx(np.mean(each), rel=1e-14)
    assert uai2014.mean_error(ours, theirs, MIXED, np.ones(3, dtype=bool)) == 0


def test_a_nan_is_never_within_tolerance() -> None:
    assert not uai2014.max_error(np.array([0.5, math.nan]), np.array([0.5, 0.5])) <= uai2014.MAR_TOLERANCE
    assert not uai2014.relative_error(math.nan, 3.0) <= uai2014.PR_TOLERANCE
    assert not uai2014.bound_holds(math.nan, 3.0, 1, 1e-6)


def test_relative_error_is_absolute_at_zero() -> None:
    assert uai2014.relative_error(2.5, 2.0) == 0.25
    assert uai2014.relative_error(-0.5, 0.0) == 0.5


@pytest.mark.parametrize("side", [1, -1])
def test_a_bound_has_a_side_and_a_slack(side: int) -> None:
    assert uai2014.bound_holds(100.0 + side, 100.0, side, 1e-6)
    assert not uai2014.bound_holds(100.0 - side, 100.0, side, 1e-6)
    assert uai2014.bound_holds(100.0 - side * 5e-5, 100.0, side, 1e-6)
    assert not uai2014.bound_holds(100.0 - side * 5e-4, 100.0, side, 1e-6)


def test_point_masses_must_be_where_the_evidence_is() -> None:
    states = np.array([0.3, 0.7, 0.0, 1.0, 0.0, 1.0])
    assert uai2014.point_masses(states, MIXED, {1: 1, 2: 0})
    assert not uai2014.point_masses(states, MIXED, {1: 2})
    assert not uai2014.point_masses(states, MIXED, {0: 1})


def test_libdai_output_is_read_up_to_the_second_block() -> None:
    text = (
        "# toy.fg\n# METHOD   \tMAX VAR ERR\tLOGZ ERROR\t\nEXACT   \t\n"
        "# ({x0}, (2.500e-01, 7.500e-01))\n# ({x1}, (1.000e-01, 2.000e-01, 7.000e-01))\n"
        "BP      \t8.000e-03\t-7.000e-04\t\n# ({x0}, (2.600e-01, 7.400e-01))\nMF  \t3.000e-01\tN/A    \t\n"
        "# toy.fg\n# METHOD   \tMAX VAR ERR\tLOGZ ERROR\t\nBP      \t9.000e-01\t1.000e+00\t\n"
    )
    methods = uai2014.parse_libdai_output(text)
    assert methods["EXACT"] == {"marginals": [[0.25, 0.75], [0.1, 0.2, 0.7]], "errors": {}}
    assert methods["BP"] == {
        "marginals": [[0.26, 0.74]],
        "errors": {"MAX VAR ERR": 8e-3, "LOGZ ERROR": -7e-4},
    }
    assert methods["MF"]["errors"] == {"MAX VAR ERR": 0.3}


@pytest.mark.parametrize("evidence", [{}, {1: 2, 4: 0}])
def test_records_of_a_small_model(evidence: dict[int, int]) -> None:
    instance = Instance("Toy_1", small_model(3), evidence)
    reference = reference_of(instance)
    record = uai2014.run_instance(instance, reference, uai2014.Settings())
    assert record["family"] == "Toy"
    assert record["observed"] == len(evidence)
    exact = record["exact"]
    assert exact["solved"] and exact["mar_ok"] and exact["pr_ok"]
    assert exact["mar_error"] < 1e-12 and exact["pr_error"] < 1e-12
    assert exact["width"] == (1 if evidence else 2)  # of the ring with a chord; what is left of it is a tree
    for method in ("bp", "trw", "mean_field"):
        assert record[method]["answered"] and record[method]["converged"]
    assert record["trw"]["bound_held"] and record["mean_field"]["bound_held"]
    assert record["mean_field"]["log10_z_error"] < 0 < record["mean_field"]["error"]
    if evidence:
        assert record["bp"]["error"] < 1e-9  # exact on a tree
    totals = uai2014.summary({"Toy_1": record}, {})
    assert totals["exact_mar_ok"] == totals["trw_bound_held"] == totals["mean_field_bound_claimed"] == 1
    assert totals["checks_passed"]


def test_a_wrong_reference_is_noticed() -> None:
    instance = Instance("Toy_1", small_model(3), {1: 2})
    right = reference_of(instance)
    off = right.states.copy()
    off[0] += 3e-5
    for wrong in (
        uai2014.Reference(off, right.log10_z),
        uai2014.Reference(right.states, right.log10_z + 1e-3),
    ):
        record = uai2014.run_instance(instance, wrong, uai2014.Settings())
        assert record["exact"]["mar_ok"] == (wrong.states is right.states)
        assert record["exact"]["pr_ok"] == (wrong.log10_z == right.log10_z)
        assert not uai2014.summary({"Toy_1": record}, {})["checks_passed"]
        assert "**wrong**" in uai2014_page.instance_table({"Toy_1": record})
        assert "Toy_1 do not." in uai2014_page.reading({"Toy_1": record}, {})


def test_refusals_and_missing_answers_are_reported() -> None:
    model = small_model(3)
    instance = Instance("Toy_1", model)
    record = uai2014.run_instance(instance, reference_of(instance), uai2014.Settings(memory_limit_gib=1e-9))
    assert not record["exact"]["solved"] and "limit" in record["exact"]["refused"]
    assert record["trw"]["bound_held"]  # against the reference
    xor = TableModel.of([2, 2], [((0, 1), np.eye(2)), ((0, 1), 1 - np.eye(2))])  # impossible
    gone = uai2014.run_mean_field(
        Instance("No_1", xor), uai2014.Reference(np.full(4, 0.5), 0.0), uai2014.Settings(mean_field_restarts=3)
    )
    assert gone["restarted"] and not gone["answered"] and not gone.get("nan")
    record["mean_field"] = gone
    text = uai2014_page.page({"Toy_1": record}, {}, uai2014.asdict(uai2014.Settings()))
    assert "| refused | – | – |" in text
    assert "Toy_1: Exact refused: " in text and "Toy_1: MF has no answer: " in text
    assert "Exact solved 0 of 1 instances and refused Toy_1" in text
    assert "\n\n**Exact inference agrees with the published answers on 0 of 1 instances; BP converges on 1" in text
    assert "the bounds of TRW and mean field hold in 1 of 1 cases.**" in text
    totals = uai2014.summary({"Toy_1": record}, {})
    assert totals["exact_refused"] == 1 and totals["mean_field_answered"] == 0
    assert totals["mean_field_mean_error"] is None


def test_marks_of_damping_convergence_and_bounds() -> None:
    entry = {"answered": True, "error": 0.25, "log10_z_error": -1.5, "sweeps": 7, "seconds": 0.5}
    cells = uai2014_page.method_cells
    assert cells(entry | {"converged": True}) == ["0.25", "-1.5", "7", "0.50"]
    assert cells(entry | {"converged": False, "damped": True})[2] == "7 d x"
    assert cells(entry | {"converged": True, "restarted": True})[2] == "7 r"
    assert cells(entry | {"converged": True, "bound_held": False})[1] == "-1.5 (!)"


def test_tables_keep_their_shape() -> None:
    assert markdown_table(["a", "b"], [["x", "1"]]) == "| a | b |\n| :-- | --: |\n| x | 1 |\n"
    with pytest.raises(ValueError, match="3 cells where the header has 2"):
        markdown_table(["a", "b"], [["x", "1", "2"]])


def write_collection(data: Path) -> None:
    """Two instances, a libDAI graph and libDAI's output for it, as the real collection has them."""
    uai, libdai = data / "uai" / "uai2014", data / "uai" / "libdai"
    uai.mkdir(parents=True)
    libdai.mkdir()
    for seed, evidence in ((11, {}), (13, {0: 1})):
        instance = Instance(f"Toy_{seed}", small_model(seed), evidence)
        marginals, log10_z = truth(instance)
        write_uai(uai / f"{instance.name}.uai.gz", instance.model)
        write_evidence(uai / f"{instance.name}.uai.evid", evidence)
        write_mar(uai / f"{instance.name}.uai.MAR.gz", marginals)
        write_pr(uai / f"{instance.name}.uai.PR", log10_z)
    write_fg(libdai / "toy.fg.gz", small_model(5, variables=4))
    with atomic_write(libdai / "testfast.out.gz") as out:
        out.write("# METHOD\tMAX VAR ERR\t\nEXACT\t\n")


def test_a_run_is_saved_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_collection(tmp_path / "data")
    results, out = tmp_path / "out" / "results.json", tmp_path / "docs" / "page.md"
    arguments = ["--data", str(tmp_path / "data"), "--results", str(results), "--out", str(out)]
    assert uai2014.main([*arguments, "--quick"]) == 0
    assert not results.exists() and not out.exists()
    assert uai2014.main([*arguments, "--minutes", "-1"]) == 0
    assert not out.exists(), "no page of half a run"
    capsys.readouterr()
    assert uai2014.main(arguments) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["instances"] == last["exact_solved"] == last["exact_mar_ok"] == last["exact_pr_ok"] == 2
    first = out.read_text(encoding="utf-8")
    assert "| Toy_11 | 6 | 0 | 13 | 3 |" in first and "| Toy_13 | 6 | 1 | 13 | 3 |" in first
    monkeypatch.setattr(uai2014, "run_instance", lambda *_: pytest.fail("a finished instance is run again"))
    assert uai2014.main(arguments) == 0
    assert out.read_text(encoding="utf-8") == first
    with pytest.raises(pytest.fail.Exception):
        uai2014.main([*arguments, "--memory-limit", "4"])  # other settings, other results


@pytest.mark.skipif(not LIBDAI.is_dir(), reason=f"no libDAI graphs at {LIBDAI}; set LOOPWISE_DATA")
def test_libdai_figures_are_met() -> None:
    libdai = uai2014.all_libdai(LIBDAI, uai2014.Settings())
    assert uai2014_page.libdai_agrees(libdai["testfast"])
    off = libdai["testfast"] | {"exact_difference": 1e-3}
    assert not uai2014_page.libdai_agrees(off)
    assert "**does not agree**" in uai2014_page.libdai_note({"testfast": off})
