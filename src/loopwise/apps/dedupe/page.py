"""A page to look at: the clusters a model is least sure of, what they hold, and why.

In: a resolution. Out: one HTML file that needs nothing else. Stage: use.
"""

from __future__ import annotations

from html import escape

import numpy as np

from loopwise.apps.dedupe.kinds import Kind
from loopwise.apps.dedupe.resolution import Reason, Resolution
from loopwise.formats.files import PathLike, atomic_write

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --low: #c0392b; --high: #1e8449; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; } .odd { background: var(--soft); } .no { color: var(--low); } .yes { color: var(--high); }
.note { color: #888; font-size: .88rem; } ul { margin: .3rem 0 0; padding-left: 1.2rem; font-size: .88rem; }
"""
SHOWN_MEMBERS, SHOWN_CELL, SHOWN_REASONS = 12, 120, 6


def write_page(resolution: Resolution, path: PathLike, *, count: int = 30) -> None:
    """Writes the page of the ``count`` most doubtful clusters, the largest ones above them."""
    told, doubtful = resolution.to_json(), resolution.doubtful(count)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Doubtful clusters</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body><h1>Doubtful clusters of {escape(resolution.records.source)}</h1>",
        f"<p>{told['records']:,} records, {told['clusters']:,} clusters, {told['pairs_compared']:,} pairs compared "
        f"({escape(told['method'])}). Confidence is the probability that a record belongs with the others of its "
        "cluster.</p>",
        _largest(resolution, doubtful),
    ]
    parts += [_cluster(resolution, cluster) for cluster in doubtful]
    if not doubtful:
        parts.append("<p>No cluster has more than one record.</p>")
    with atomic_write(path) as out:
        out.write("\n".join([*parts, "</body></html>\n"]))


def _largest(resolution: Resolution, doubtful: list[int]) -> str:
    """The largest clusters; those that the page shows are links."""
    shown = {cluster: f"<a href='#c{cluster}'>{cluster}</a>" for cluster in doubtful}
    rows = "".join(
        f"<tr><td>{shown.get(each.cluster, each.cluster)}</td><td class=n>{each.size}</td>"
        f"<td class=n>{each.mean:.3f}</td><td class=n>{each.lowest:.3f}</td></tr>"
        for each in resolution.largest(8)
    )
    head = "<tr><th>cluster</th><th class=n>records</th><th class=n>mean confidence</th><th class=n>lowest</th></tr>"
    return f"<h2>Largest clusters</h2><table>{head}{rows}</table>" if rows else ""


def _cluster(resolution: Resolution, cluster: int) -> str:
    members = resolution.members(cluster)
    kinds = resolution.table.comparer.kinds
    columns = [name for name in resolution.records.names if kinds.get(name, Kind.IGNORE) is not Kind.IGNORE]
    usual = resolution.canonical(cluster)
    least = members[np.argsort(resolution.confidence[members], kind="stable")]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = "".join(_row(resolution, int(row), columns, usual) for row in least[:SHOWN_MEMBERS])
    more = len(members) - SHOWN_MEMBERS
    note = f"<p class=note>… and {more} more</p>" if more > 0 else ""
    return (
        f"<h2 id='c{cluster}'>Cluster {cluster}: {len(members)} records, "
        f"confidence {resolution.cluster_confidence[cluster]:.3f}</h2><div class=scroll><table>"
        f"<tr><th>id</th><th class=n>confidence</th>{head}</tr>{rows}</table></div>{note}{_reasons(resolution, least)}"
    )


def _row(resolution: Resolution, row: int, columns: list[str], usual: dict[str, str]) -> str:
    record = resolution.records.row(row)
    cells = "".join(
        f"<td{' class=odd' if record[name] != usual[name] else ''}>{escape(_short(record[name]))}</td>"
        for name in columns
    )
    return f"<tr><td>{escape(resolution.names[row])}</td><td class=n>{resolution.confidence[row]:.3f}</td>{cells}</tr>"


def _reasons(resolution: Resolution, least: np.ndarray) -> str:
    """Why the least sure record is with the surest."""
    one, other = int(least[0]), int(least[-1])
    reasons = resolution.explain(one, other, None, by_column=True)
    items = "".join(_item(reason) for reason in reasons[:SHOWN_REASONS])
    pair = f"{escape(resolution.names[one])} with {escape(resolution.names[other])}"
    total = sum(reason.weight for reason in reasons)
    return f"<p class=note>{pair}: log-odds {total:+.2f}, of which</p><ul>{items}</ul>"


def _item(reason: Reason) -> str:
    said = "" if reason.similarity is None else f" (similarity {reason.similarity:.2f})"
    kind = "yes" if reason.weight >= 0 else "no"
    return f"<li><span class={kind}>{reason.weight:+.2f}</span> {escape(reason.comparison)}{said}</li>"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CELL else text[: SHOWN_CELL - 1] + "…"
