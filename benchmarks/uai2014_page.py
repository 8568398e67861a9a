"""The page and the summary of ``uai2014.py``, from its records alone.

In: a record for each instance and each libDAI graph. Out: a dictionary of totals, and Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from common import markdown_table

Record = dict[str, Any]
Records = Mapping[str, Record]

METHODS = {"bp": "BP", "trw": "TRW", "mean_field": "MF"}
PRINTED = 5.1e-5  # half a unit of the last digit libDAI prints of a probability, and rounding
PRINTED_RELATIVE = 1e-3  # likewise of its errors, four digits, which are differences of rounded ones


def summary(records: Records, libdai: Records) -> dict[str, object]:
    """Totals over all instances; ``checks_passed`` is whether everything held that has to."""
    exact = [record["exact"] for record in records.values()]
    solved = [entry for entry in exact if entry["solved"]]
    totals: dict[str, object] = {
        "instances": len(records),
        "exact_solved": len(solved),
        "exact_refused": len(exact) - len(solved),
        "exact_mar_ok": sum(entry["mar_ok"] for entry in solved),
        "exact_pr_ok": sum(entry["pr_ok"] for entry in solved),
    }
    passed = all(entry["mar_ok"] and entry["pr_ok"] for entry in solved)
    for name in METHODS:
        entries = answered(records, name)
        totals |= {
            f"{name}_answered": len(entries),
            f"{name}_converged": sum(entry["converged"] for entry in entries),
            f"{name}_mean_error": mean(entry["error"] for entry in entries),
        }
        if name != "bp":
            claims = bound_claims(records, name)
            totals[f"{name}_bound_held"] = sum(entry["bound_held"] for entry in claims)
            totals[f"{name}_bound_claimed"] = len(claims)
            passed = passed and all(entry["bound_held"] for entry in claims)
        passed = passed and not any(record[name].get("nan") for record in records.values())
    totals["bp_damped"] = sum(record["bp"].get("damped", False) for record in records.values())
    totals["mean_field_restarted"] = sum(record["mean_field"].get("restarted", False) for record in records.values())
    totals["libdai_ok"] = all(libdai_agrees(record) for record in libdai.values())
    return totals | {"checks_passed": bool(passed and totals["libdai_ok"])}


def answered(records: Records, name: str) -> list[Record]:
    """The results of one method where it had any."""
    return [record[name] for record in records.values() if record[name]["answered"]]


def bound_claims(records: Records, name: str) -> list[Record]:
    """Where a bound is claimed: TRW's holds at a fixed point, mean field's after any sweep."""
    return [entry for entry in answered(records, name) if name == "mean_field" or entry["converged"]]


def libdai_agrees(record: Record) -> bool:
    """Whether marginals and errors are those libDAI printed; true where it printed none."""
    if "exact_difference" not in record:
        return True
    theirs = record["libdai_bp_columns"]
    return max(record["exact_difference"], record["bp_difference"]) <= PRINTED and all(
        abs(ours - theirs[column]) <= PRINTED_RELATIVE * abs(theirs[column])
        for column, ours in record["bp_columns"].items()
    )


def mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return float(np.mean(numbers)) if numbers else None


def page(records: Records, libdai: Records, settings: Mapping[str, Any]) -> str:
    """The whole page."""
    families = sorted({record["family"] for record in records.values()}, key=str.lower)
    by_family = {
        family: {name: record for name, record in sorted(records.items()) if record["family"] == family}
        for family in families
    }
    parts = [
        "# UAI 2014 instances\n",
        f"**{opening(records)}**\n",
        "Written by `benchmarks/uai2014.py`; run it again to renew this page. [MAP on the same instances](map.md).\n",
        "## Reading\n",
        reading(records, libdai) + "\n",
        "## How to read the tables\n",
        LEGEND.format_map(settings),
        "## By family\n",
        family_table(by_family),
        "Errors are means over the family's instances that have an answer; *damped*: runs repeated with damping.\n",
    ]
    for family, members in by_family.items():
        parts += [f"## {family}\n", instance_table(members)]
        parts += [f"- {note}" for note in notes(members)]
        parts += [""] if parts[-1].startswith("- ") else []
    parts += ["## libDAI's test graphs\n", libdai_table(libdai), libdai_note(libdai)]
    return "\n".join(parts).rstrip("\n") + "\n"


LEGEND = """\
- **Exact**: junction tree, memory limit {memory_limit_gib:g} GiB. *MAR* is the largest absolute error of any
  marginal, *PR* the relative error of log10 Z; the references have six significant digits, so 5e-7 and 5e-6
  are as good as it gets. Both pass at 1e-5. *Width*: of the elimination order found for the unobserved
  variables, before values that zeros rule out are left out (which Exact does on large models).
- **BP**: sequential, at most {bp_sweeps} sweeps, tolerance {tolerance:g}; where that does not converge,
  the run with damping {bp_damping:g} is shown instead and marked **d**. **TRW**: sequential, spanning-tree
  appearance probabilities; **MF**: naive mean field, one start; both at most
  {other_sweeps} sweeps, same tolerance. Where hard zeros leave that start without a finite bound, mean field
  is run again with {mean_field_restarts} restarts, marked **r** (seconds are of all restarts together).
- *error*: mean over unobserved variables of the mean over their values of the absolute error against the
  reference. *Δ*: estimate less exact log10 Z (less the reference where Exact refused); **(!)** marks a bound
  that did not hold. *sweeps*: **x** marks runs that did not converge. A dash is no answer; notes say why.
- Seconds are of one call on a new graph with compiled kernels (Exact: the search for an elimination order
  included; from 10 s on, the run that was checked is the one timed). They are single runs on a small machine:
  compare them within a row only. TRW on pairwise graphs inverts a dense matrix of all variables for its
  probabilities, cubic in their number (beyond 2000 variables it samples trees instead).
"""


def family_table(by_family: Mapping[str, Records]) -> str:
    header = [
        "family", "instances", "exact solved", "MAR ok", "PR ok", "BP error", "BP converged (damped)",
        "TRW error", "TRW converged", "TRW bound held", "MF error", "MF answered", "MF bound held",
    ]  # fmt: skip
    everything = {name: record for members in by_family.values() for name, record in members.items()}
    rows = []
    for family, members in [*by_family.items(), ("**all**", everything)]:
        total = summary(members, {})
        rows.append(
            [
                family,
                *(str(total[key]) for key in ("instances", "exact_solved", "exact_mar_ok", "exact_pr_ok")),
                number(total["bp_mean_error"]),
                f"{total['bp_converged']} ({total['bp_damped']} d)"
                if total["bp_damped"]
                else str(total["bp_converged"]),
                number(total["trw_mean_error"]),
                str(total["trw_converged"]),
                f"{total['trw_bound_held']} of {total['trw_bound_claimed']}",
                number(total["mean_field_mean_error"]),
                str(total["mean_field_answered"]),
                f"{total['mean_field_bound_held']} of {total['mean_field_bound_claimed']}",
            ]
        )
    return markdown_table(header, rows)


def instance_table(records: Records) -> str:
    header = ["instance", "variables", "observed", "factors", "values", "width", "exact s", "MAR", "PR"]
    for label in METHODS.values():
        header += [f"{label} error", "Δ", "sweeps", "s"]
    rows = []
    for name, record in records.items():
        exact = record["exact"]
        row = [name, *(str(record[key]) for key in ("variables", "observed", "factors", "cardinality"))]
        row.append(str(exact["width"]))
        if exact["solved"]:
            row += [seconds(exact["seconds"]), checked(exact, "mar"), checked(exact, "pr")]
        else:
            row += ["refused", "–", "–"]
        for method in METHODS:
            row += method_cells(record[method])
        rows.append(row)
    return markdown_table(header, rows)


def method_cells(entry: Record) -> list[str]:
    if not entry["answered"]:
        return ["–"] * 4
    marks = (" d" if entry.get("damped") else " r" if entry.get("restarted") else "") + (
        "" if entry["converged"] else " x"
    )
    difference = f"{entry['log10_z_error']:+.3g}" + ("" if entry.get("bound_held", True) else " (!)")
    return [number(entry["error"]), difference, f"{entry['sweeps']}{marks}", seconds(entry["seconds"])]


def checked(exact: Record, task: str) -> str:
    return f"{exact[f'{task}_error']:.1e}" + ("" if exact[f"{task}_ok"] else " **wrong**")


def notes(records: Records) -> list[str]:
    """Refusals and missing answers; instances of one reason share a note."""
    by_reason: dict[str, list[str]] = {}
    for name, record in records.items():
        if not record["exact"]["solved"]:
            by_reason.setdefault(f"Exact refused: {record['exact']['refused']}.", []).append(name)
        for method, label in METHODS.items():
            if not record[method]["answered"]:
                by_reason.setdefault(f"{label} has no answer: {record[method]['reason']}.", []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def libdai_table(libdai: Records) -> str:
    header = ["graph", "variables", "factors", "width", "BP error", "BP largest error", "Δ ln Z", "sweeps"]
    rows = [
        [
            name,
            *(str(record[key]) for key in ("variables", "factors", "width")),
            number(record["bp_error"]),
            number(record["bp_columns"]["MAX VAR ERR"]),
            f"{record['bp_columns']['LOGZ ERROR']:+.3g}",
            f"{record['bp_sweeps']}" + ("" if record["bp_converged"] else " x"),
        ]
        for name, record in libdai.items()
    ]
    return markdown_table(header, rows)


def libdai_note(libdai: Records) -> str:
    lines = ["BP to 1e-9 against Exact. Largest error: of a variable, in total variation, as libDAI measures it."]
    for name, record in libdai.items():
        if "exact_difference" not in record:
            continue
        pairs = ", ".join(
            f"{column} {ours:.3e} (libDAI {record['libdai_bp_columns'][column]:.3e})"
            for column, ours in record["bp_columns"].items()
        )
        verdict = "agrees" if libdai_agrees(record) else "**does not agree**"
        lines.append(
            f"{name} {verdict} with libDAI's printed output (four digits): exact marginals to "
            f"{record['exact_difference']:.1e}, BP marginals to {record['bp_difference']:.1e}, {pairs}."
        )
    return "\n".join(lines) + "\n"


def reading(records: Records, libdai: Records) -> str:
    """One paragraph: what held and what did not, in figures."""
    return " ".join([*exact_sentences(records), *bp_sentences(records), *bound_sentences(records), *close(libdai)])


def opening(records: Records) -> str:
    """The page in one sentence."""
    settled_errors = [record["bp"]["error"] for record in records.values() if settled(record["bp"])]
    right = sum(
        record["exact"]["solved"] and record["exact"]["mar_ok"] and record["exact"]["pr_ok"]
        for record in records.values()
    )
    bounds = [entry["bound_held"] for name in ("trw", "mean_field") for entry in bound_claims(records, name)]
    return (
        f"Exact inference agrees with the published answers on {right} of {len(records)} instances; BP converges on"
        f" {len(settled_errors)}"
        + (f", with a median error of {np.median(settled_errors):.2g} in a marginal" if settled_errors else "")
        + f"; the bounds of TRW and mean field hold in {sum(bounds)} of {len(bounds)} cases."
    )


def exact_sentences(records: Records) -> list[str]:
    solved = {name: record["exact"] for name, record in records.items() if record["exact"]["solved"]}
    refused = [name for name in records if name not in solved]
    wrong = [name for name, entry in solved.items() if not (entry["mar_ok"] and entry["pr_ok"])]
    sentences = [
        f"Exact solved {len(solved)} of {len(records)} instances"
        + (f" and refused {listed(refused)} (the notes say what it would take)." if refused else ".")
    ]
    if solved:
        mar, pr = (max(entry[key] for entry in solved.values()) for key in ("mar_error", "pr_error"))
        sentences.append(
            f"Of the solved, {len(solved) - len(wrong)} agree with the references (largest marginal error "
            f"{mar:.1e}, largest relative error of log10 Z {pr:.1e}), observed variables being point masses"
            + (f"; {listed(wrong)} do not." if wrong else ".")
        )
    return sentences


def bp_sentences(records: Records) -> list[str]:
    unsettled = named(records, "bp", lambda entry: not entry["converged"])
    converged = {name: record["bp"] for name, record in records.items() if settled(record["bp"])}
    sentences = [
        f"BP converged on {len(converged)}"
        + (f" and did not, even damped, on {listed(unsettled)}: its errors there mean little." if unsettled else ".")
    ]
    if converged:
        errors = {name: entry["error"] for name, entry in converged.items()}
        worst = max(errors, key=lambda name: errors[name])
        both = [name for name in converged if records[name]["trw"]["answered"]]
        closer = sum(records[name]["trw"]["error"] < errors[name] for name in both)
        median = np.median(list(errors.values()))
        sentences.append(
            f"Converged is not right: the median error is {median:.2g}, the largest "
            f"{errors[worst]:.2g} ({worst}); TRW's marginals are closer on {closer} of these {len(both)}."
        )
    return sentences


def bound_sentences(records: Records) -> list[str]:
    trw, field = bound_claims(records, "trw"), bound_claims(records, "mean_field")
    held = sum(entry["bound_held"] for entry in trw)
    sentences = [
        f"TRW's upper bound held on {held} of the {len(trw)} instances it converged on"
        + (f" (median excess {np.median([entry['log10_z_error'] for entry in trw]):.3g} in log10 Z)" if trw else "")
    ]
    late = named(records, "trw", lambda entry: not entry["converged"])
    sentences[-1] += f"; it did not converge on {listed(late)}." if late else "."
    restarted = sum(record["mean_field"].get("restarted", False) for record in records.values())
    silent = [name for name, record in records.items() if not record["mean_field"]["answered"]]
    sentences.append(f"Mean field's lower bound held on {sum(entry['bound_held'] for entry in field)} of {len(field)}")
    if restarted:
        sentences[-1] += f"; hard zeros defeat its single start on {restarted}, restarts answer all of them"
        sentences[-1] += f" but {listed(silent)}" if silent else ""
    sentences[-1] += "."
    return sentences


def close(libdai: Records) -> list[str]:
    if not libdai:
        return []
    agrees = all(libdai_agrees(record) for record in libdai.values())
    return ["libDAI's own figures for its test graph are met." if agrees else "libDAI's own figures are **not** met."]


def settled(entry: Record) -> bool:
    return bool(entry["answered"] and entry["converged"])


def named(records: Records, method: str, condition: Callable[[Record], bool]) -> list[str]:
    """Instances with an answer of ``method`` that meets the condition."""
    return [name for name, record in records.items() if record[method]["answered"] and condition(record[method])]


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def number(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}"


def seconds(value: float) -> str:
    return (
        f"{value:.0f}"
        if value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
        if value >= 0.1
        else f"{value:.3f}"
    )
