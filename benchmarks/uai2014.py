"""The UAI 2014 instances: is exact inference right, how far off are the approximations, do their bounds hold?

In: ``DATA/uai/uai2014`` (models, evidence, reference marginals and partition functions), ``DATA/uai/libdai``.
Out: a JSON file that every finished instance is added to (a rerun continues), the page ``uai2014_page.py``
makes of it, and one line of JSON. Results are checked before anything is timed.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import (
    REPOSITORY,
    Floats,
    Instance,
    folder_in,
    load_instance,
    load_json,
    option_parser,
    print_summary,
    progress_bar,
    save_json,
    save_text,
)
from loopwise.formats import read_mar, read_pr, read_text
from loopwise.graph import FactorGraph
from loopwise.graph.elimination import junction_tree
from loopwise.inference.base import Inference
from loopwise.inference.exact.method import Exact, TooLargeError
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.schedules import Sequential
from loopwise.notices import ImpossibleError, LoopwiseWarning
from uai2014_page import page, summary

MAR_TOLERANCE = 1e-5  # the references have six significant digits
PR_TOLERANCE = 1e-5  # relative, for the same reason
BOUND_SLACK = 1e-6  # relative: a bound from beliefs converged to 1e-6 can be off by about that
REFERENCE_SLACK = 5e-6  # relative: half a unit of the sixth digit, where only the reference is known
SECOND_RUN_BELOW = 10.0  # seconds: slower calls are timed while they are checked, once
ANY_WIDTH = 1e300  # cells: the width of an elimination order is wanted, however large
QUICK = (
    "Alchemy_11", "CSP_11", "CSP_13", "DBN_11", "Grids_11", "Grids_13", "ObjectDetection_35",
    "Pedigree_11", "Promedus_22", "Promedus_29", "Segmentation_14", "linkage_16",
)  # fmt: skip
LAST = ("linkage_11",)  # minutes and gigabytes: after everything else is saved

Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What results depend on: saved ones are used again only if made under the same."""

    memory_limit_gib: float = 8.0
    tolerance: float = 1e-6
    bp_sweeps: int = 1000
    bp_damping: float = 0.5  # of the second try
    other_sweeps: int = 10_000  # TRW and mean field: slow to settle, cheap to wait for
    mean_field_restarts: int = 100  # of the second try, where hard zeros defeat the first

    def exact(self) -> Exact:
        return Exact(memory_limit=self.memory_limit_gib * 2**30)

    def bp(self, damping: float = 0.0) -> BP:
        return BP(iterations=self.bp_sweeps, tolerance=self.tolerance, damping=damping, schedule=Sequential())

    def trw(self) -> TRW:
        return TRW(iterations=self.other_sweeps, tolerance=self.tolerance, schedule=Sequential())

    def mean_field(self, restarts: int = 1) -> MeanField:
        return MeanField(iterations=self.other_sweeps, tolerance=self.tolerance, restarts=restarts)


@dataclass(frozen=True)
class Reference:
    """What the right answer is said to be."""

    states: Floats  # marginals of all variables, one after another
    log10_z: float


def mean_error(states: Floats, reference: Floats, owner: np.ndarray, observed: np.ndarray) -> float:
    """Mean over unobserved variables of the mean over a variable's values of the absolute error."""
    per_variable = np.bincount(owner, np.abs(states - reference), len(observed)) / np.bincount(
        owner, minlength=len(observed)
    )
    free = per_variable[~observed]
    return float(free.mean()) if free.size else 0.0


def max_error(states: Floats, reference: Floats) -> float:
    """Largest absolute error of any state, NaN if there is one."""
    return float(np.abs(states - reference).max(initial=0.0))


def relative_error(value: float, reference: float) -> float:
    """Absolute where the reference is 0."""
    return abs(value - reference) / (abs(reference) or 1.0)


def bound_holds(bound: float, log10_z: float, side: int, slack: float) -> bool:
    """Whether ``bound`` is above (``side`` 1) or below (-1) ``log10_z``, up to a relative slack."""
    return side * (bound - log10_z) >= -slack * max(1.0, abs(log10_z))


def point_masses(states: Floats, owner: np.ndarray, evidence: Mapping[int, int]) -> bool:
    """Whether the marginals of observed variables are point masses on what was observed."""
    for variable, value in evidence.items():
        marginal = states[owner == variable]
        if not np.allclose(marginal, np.arange(len(marginal)) == value, rtol=0, atol=1e-9):
            return False
    return True


def run_exact(instance: Instance, reference: Reference, method: Exact) -> Record:
    """Exact marginals and log Z against the reference, or why there are none."""
    graph, tables = instance.problem()
    owner = instance.state_variable()
    record: Record = {"solved": False}
    begin = time.perf_counter()
    try:
        beliefs = method(graph, tables, instance.evidence)
    except TooLargeError as refusal:
        record["refused"] = str(refusal)
    else:
        record["seconds"] = time.perf_counter() - begin
        states, log10_z = beliefs.states.numpy(), float(beliefs.log_partition) / math.log(10)
        record |= {
            "solved": True,
            "mar_error": max_error(states, reference.states),
            "pr_error": relative_error(log10_z, reference.log10_z),
            "log10_z": log10_z,
            "point_masses": all(
                point_masses(values, owner, instance.evidence) for values in (states, reference.states)
            ),
        }
        record["mar_ok"] = record["mar_error"] <= MAR_TOLERANCE and record["point_masses"]
        record["pr_ok"] = record["pr_error"] <= PR_TOLERANCE
        del beliefs
        gc.collect()
        if record["seconds"] < SECOND_RUN_BELOW:
            record["seconds"] = timed(instance, method)
    record["width"] = induced_width(graph)
    return record


def induced_width(graph: FactorGraph) -> int:
    """Width of the elimination order of the unobserved variables, before impossible values are left out."""
    plans = list(graph.conditioned.values())
    free = plans[-1].graph if plans else graph
    tree = free.layout.junction_tree or junction_tree(free, restarts=0, cell_limit=ANY_WIDTH)
    assert tree is not None, "no order exceeds the largest number"
    return tree.induced_width


def timed(instance: Instance, method: Inference) -> float:
    """Seconds of a call on a new graph: preparing the graph counts, compiling kernels does not."""
    graph, tables = instance.problem()
    begin = time.perf_counter()
    method(graph, tables, instance.evidence)
    return time.perf_counter() - begin


def run_approximate(instance: Instance, reference: Reference, method: Inference) -> Record:
    """Errors of one method; where it has no answer, what it said."""
    graph, tables = instance.problem()
    try:
        beliefs = method(graph, tables, instance.evidence)
    except ImpossibleError as problem:
        return {"answered": False, "reason": str(problem)}
    states, log10_z = beliefs.states.numpy(), float(beliefs.log_partition) / math.log(10)
    if not (math.isfinite(log10_z) and np.isfinite(states).all()):
        nan = bool(np.isnan(states).any() or math.isnan(log10_z))
        what = "NaN" if nan else f"the log10 Z estimate is {log10_z}"
        return {"answered": False, "nan": nan, "reason": "; ".join([what, *beliefs.status.notes])}
    return {
        "answered": True,
        "error": mean_error(states, reference.states, instance.state_variable(), instance.observed()),
        "max_error": max_error(states, reference.states),
        "log10_z": log10_z,
        "converged": beliefs.status.converged,
        "sweeps": int(beliefs.status.sweeps),
        "residual": float(beliefs.status.residual),
        "domain": beliefs.status.domain,
        "seconds": timed(instance, method),
    }


def run_bp(instance: Instance, reference: Reference, settings: Settings) -> Record:
    """BP; where it does not converge, once more with damping, keeping both."""
    plain = run_approximate(instance, reference, settings.bp())
    if not plain["answered"] or plain["converged"]:
        return plain | {"damped": False}
    damped = run_approximate(instance, reference, settings.bp(settings.bp_damping))
    return damped | {"damped": True, "undamped": plain}


def run_mean_field(instance: Instance, reference: Reference, settings: Settings) -> Record:
    """Mean field from one start; where that has no finite bound, once more from many."""
    single = run_approximate(instance, reference, settings.mean_field())
    if single["answered"]:
        return single | {"restarted": False}
    again = run_approximate(instance, reference, settings.mean_field(settings.mean_field_restarts))
    return again | {"restarted": True}


def run_instance(instance: Instance, reference: Reference, settings: Settings) -> Record:
    """Everything about one instance."""
    model = instance.model
    record: Record = {
        "family": instance.family,
        "variables": model.variables,
        "observed": len(instance.evidence),
        "factors": model.factors,
        "cardinality": int(model.cardinalities.max(initial=0)),
        "reference_log10_z": reference.log10_z,
        "exact": run_exact(instance, reference, settings.exact()),
        "bp": run_bp(instance, reference, settings),
        "trw": run_approximate(instance, reference, settings.trw()),
        "mean_field": run_mean_field(instance, reference, settings),
    }
    solved = record["exact"]["solved"]
    truth = record["exact"]["log10_z"] if solved else reference.log10_z
    slack = BOUND_SLACK if solved else REFERENCE_SLACK
    for name, side in (("bp", 0), ("trw", 1), ("mean_field", -1)):
        entry = record[name]
        if entry["answered"]:
            entry["log10_z_error"] = entry["log10_z"] - truth
            if side:
                entry["bound_held"] = bound_holds(entry["log10_z"], truth, side, slack)
    return record


def read_reference(folder: Path, name: str, cardinalities: np.ndarray) -> Reference:
    marginals = read_mar(folder / f"{name}.uai.MAR.gz", cardinalities)
    return Reference(np.concatenate(marginals), read_pr(folder / f"{name}.uai.PR"))


def parse_libdai_output(text: str) -> dict[str, Record]:
    """What libDAI's test program printed: for each method its marginals and its columns of errors (by name).

    A line of a name and numbers is followed by a line ``# ({x0}, (p, q))`` for each variable; the line that
    begins ``# METHOD`` names the columns. Only the first of the file's blocks (marginals, not MAP) is read.
    """
    methods: dict[str, Record] = {}
    columns: Sequence[str] = ()
    current: Record = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if line.startswith("# METHOD"):
            if methods:
                break
            columns = [cell for cell in cells[1:] if cell]
        elif line.startswith("# ("):
            inner = re.search(r"\(([^()]*)\)\)", line)
            assert inner is not None, f"not a marginal: {line!r}"
            current["marginals"].append([float(number) for number in inner.group(1).split(",")])
        elif line and not line.startswith("#"):
            errors = dict(zip(columns, cells[1:], strict=False))
            current = {
                "marginals": [],
                "errors": {k: float(v) for k, v in errors.items() if v not in ("", "N/A")},
            }
            methods[cells[0]] = current
    return methods


def run_libdai(path: Path, printed: Mapping[str, Record] | None, settings: Settings) -> Record:
    """Exact against BP on one of libDAI's graphs, and both against what libDAI printed, if it did."""
    instance = load_instance(path)
    owner, observed = instance.state_variable(), instance.observed()
    graph, tables = instance.problem()
    exact = settings.exact()(graph, tables)
    bp = BP(iterations=settings.bp_sweeps, tolerance=1e-9, schedule=Sequential())(graph, tables)
    truth, beliefs = exact.states.numpy(), bp.states.numpy()
    distance = np.bincount(owner, np.abs(beliefs - truth)) / 2  # libDAI's: total variation, a variable
    record: Record = {
        "variables": graph.variables,
        "factors": graph.factors,
        "width": induced_width(graph),
        "bp_error": mean_error(beliefs, truth, owner, observed),
        "bp_columns": {
            "MAX VAR ERR": float(distance.max()),
            "AVG VAR ERR": float(distance.mean()),
            "LOGZ ERROR": float(bp.log_partition - exact.log_partition),
        },
        "bp_sweeps": int(bp.status.sweeps),
        "bp_converged": bp.status.converged,
    }
    if printed is not None:
        record["exact_difference"] = max_error(truth, np.concatenate(printed["EXACT"]["marginals"]))
        record["bp_difference"] = max_error(beliefs, np.concatenate(printed["BP"]["marginals"]))
        record["libdai_bp_columns"] = printed["BP"]["errors"]
    return record


def all_libdai(folder: Path, settings: Settings) -> dict[str, Record]:
    printed = parse_libdai_output(read_text(folder / "testfast.out.gz"))
    return {
        path.name.removesuffix(".fg.gz"): run_libdai(
            path, printed if path.name.startswith("testfast.") else None, settings
        )
        for path in sorted(folder.glob("*.fg.gz"))
    }


def instance_names(folder: Path, quick: bool) -> list[str]:
    found = sorted(path.name.removesuffix(".uai.gz") for path in folder.glob("*.uai.gz"))
    chosen = [name for name in found if not quick or name in QUICK]
    return sorted(chosen, key=lambda name: name in LAST)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no instance after so many")
    parser.add_argument("--memory-limit", type=float, default=8.0, metavar="GiB", help="of exact inference")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "results" / "uai2014.md", help="the page")
    parser.add_argument(
        "--results",
        type=Path,
        default=REPOSITORY / "out" / "uai2014.json",
        help="where finished instances are saved, and taken from under the same settings",
    )
    parser.add_argument("--fresh", action="store_true", help="run saved instances again")
    return parser.parse_args(arguments)


def run_missing(names: Sequence[str], folder: Path, saved: Record, options: argparse.Namespace) -> None:
    """Adds the instances not yet in ``saved``, saving after each, while there is time."""
    settings = Settings(**saved["settings"])
    begin = time.perf_counter()
    todo = [name for name in names if name not in saved["instances"]]
    with progress_bar(len(names), len(names) - len(todo)) as update:
        for name in todo:
            if time.perf_counter() - begin > 60 * options.minutes:
                return
            update(name)
            instance = load_instance(folder / f"{name}.uai.gz", folder / f"{name}.uai.evid")
            reference = read_reference(folder, name, instance.model.cardinalities)
            saved["instances"][name] = run_instance(instance, reference, settings)
            if not options.quick:
                save_json(options.results, saved)
            update(name, advance=1)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    settings = Settings(memory_limit_gib=options.memory_limit)
    folder, libdai = folder_in(options.data, "uai", "uai2014"), folder_in(options.data, "uai", "libdai")
    saved = None if options.quick or options.fresh else load_json(options.results)
    if saved is None or saved["settings"] != asdict(settings):
        saved = {"settings": asdict(settings), "instances": {}}
    names = instance_names(folder, options.quick)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)  # what does not converge is counted in the tables
        saved["libdai"] = all_libdai(libdai, settings)
        run_missing(names, folder, saved, options)
    finished = {name: saved["instances"][name] for name in names if name in saved["instances"]}
    if len(finished) < len(names):
        print(f"{len(finished)} of {len(names)} instances done: the page is written when a rerun ends the rest")
    elif not options.quick:
        save_text(options.out, page(finished, saved["libdai"], asdict(settings)))
    result = summary(finished, saved["libdai"])
    print_summary(result | {"seconds": round(time.perf_counter() - begin, 1)})
    return 0 if result["checks_passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
