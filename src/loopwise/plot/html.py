"""Objects as a notebook shows them: small HTML with SVG inside, in light and in dark.

In: a graph, beliefs, a status, a history, a tree, a document with entities, an estimator. Out: HTML. Use:
:class:`loopwise.notebook.Shown` calls :func:`html_of`; so may you.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Any

from loopwise.apps.estimator import Estimator
from loopwise.apps.parser.estimator import ParseTree
from loopwise.formats.coref import CorefDocument
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.explain import Explanation
from loopwise.inference.named import NamedTable
from loopwise.learn.history import History
from loopwise.plot.graphs import factor_graph
from loopwise.plot.style import BLUE, COLOURS
from loopwise.plot.training import history as history_axes
from loopwise.plot.trees import arcs

DRAWN = 40  # variables, up to which a graph is drawn
ROWS = 20  # of a table


@singledispatch
def html_of(thing: Any) -> str:
    """HTML for a notebook, or for a page of your own.

    >>> import loopwise as lw
    >>> print(html_of(lw.BP()(lw.chain(2), lw.TablePotentials(lw.chain(2))).status))
    <p><b>BP</b>: these beliefs are exact.<br><small>1 sweep, 2 messages, compiled engine</small></p>
    """
    return f"<pre>{escape(str(thing))}</pre>"


@html_of.register
def _graph(graph: FactorGraph) -> str:
    said = f"<p>{escape(repr(graph))}</p>"
    if not 0 < graph.variables <= DRAWN:
        return said
    names = None if graph.vocabulary is None else graph.vocabulary.names
    try:
        return said + svg_of(factor_graph(graph, names=names))
    except ValueError:  # more factors than can be told apart
        return said


@html_of.register
def _status(status: Status) -> str:
    if status.exact:
        verdict = "these beliefs are exact."
    elif status.converged:
        verdict = "converged, on a graph with cycles: beliefs are approximate."
    else:
        verdict = "<b>did not converge</b>; <code>lw.explain(beliefs)</code> says why, and what would help."
    details = []
    if status.sweeps.numel() and int(status.sweeps.max()):
        low, high = int(status.sweeps.min()), int(status.sweeps.max())
        count = str(high) if low == high else f"{low} to {high}"
        details.append(f"{count} sweep{'' if high == 1 else 's'}")
        if float(status.residual.max()):
            details.append(f"last change {float(status.residual.max()):.2g}")
    details += [f"{status.messages:,} messages"] if status.messages else []
    details += [f"{status.engine} engine"] if status.engine else []
    details += status.notes
    notes = escape(", ".join(details))
    return f"<p><b>{escape(status.method)}</b>: {verdict}<br><small>{notes}</small></p>"


@html_of.register
def _beliefs(beliefs: Beliefs) -> str:
    said = _status(beliefs.status)
    if beliefs.batch_shape:
        return f"<p>Beliefs of {beliefs.batch_shape.numel()} examples, {escape(repr(beliefs.graph))}</p>{said}"
    known = beliefs.graph.vocabulary
    rows = []
    for variable in range(min(beliefs.graph.variables, ROWS)):
        values = beliefs.marginal(variable).tolist()
        labels = [str(value) for value in range(len(values))] if known is None else known.labels[variable]
        rows.append((str(variable) if known is None else escape(known.names[variable]), _bars(labels, values)))
    return said + _table(("variable", "marginal"), rows, beliefs.graph.variables)


@html_of.register
def _named(table: NamedTable) -> str:
    flat = table.values.detach().reshape(-1, len(table.labels)).tolist()
    name = escape(table.name)
    rows = [(str(place) if len(flat) > 1 else name, _bars(table.labels, row)) for place, row in enumerate(flat)]
    return _table((table.name if len(flat) > 1 else "variable", "marginal"), rows[:ROWS], len(flat))


@html_of.register
def _explanation(found: Explanation) -> str:
    return f"<pre style='white-space:pre-wrap'>{escape(str(found))}</pre>"


@html_of.register
def _history(history: History) -> str:
    if not len(history):
        return "<p>no epoch yet</p>"
    best = "" if history.best is None else f", the weights are those of epoch {history.best}"
    last = history[-1]
    said = f"<p>{len(history)} epochs, loss {last.loss:.5g}{best}; {escape(history.ended or 'not ended')}</p>"
    axes = history_axes(history)
    axes.figure.set_size_inches(5.6, 3.2)  # type: ignore[union-attr]
    return said + svg_of(axes, follows=True)


@html_of.register
def _tree(tree: ParseTree) -> str:
    sentence = tree.sentence
    drawn = arcs(
        sentence.forms, tree.heads, tags=sentence.coarse_tags, relations=tree.relations, marginals=tree.marginals
    )
    return f'<div style="overflow-x:auto">{drawn}</div>'


@html_of.register
def _document(document: CorefDocument) -> str:
    """The words, mentions underlined in the colour of their entity and with its number; entities of one are grey."""
    entities = document.entities()
    size = [entities.count(entity) for entity in entities]
    opens: dict[int, list[str]] = {}
    closes: dict[int, list[str]] = {}
    for mention, entity, members in zip(document.mentions, entities, size, strict=True):
        colour = COLOURS[entity % len(COLOURS)] if members > 1 else "#999999"
        opens.setdefault(mention.first, []).append(f'<span style="border-bottom:2px solid {colour}">')
        number = f'<sub style="color:{colour}">{entity + 1}</sub>' if members > 1 else ""
        closes.setdefault(mention.last, []).append(f"{number}</span>")
    starts = {*document.sentence_start[1:-1]}
    words = []
    for place, word in enumerate(document.words):
        line = "<br>" if place in starts else ""
        words.append(f"{line}{''.join(opens.get(place, ()))}{escape(word)}{''.join(closes.get(place, ()))}")
    chains = len({entity for entity, members in zip(entities, size, strict=True) if members > 1})
    return (
        f"<p><b>{escape(document.name)}</b>: {len(entities)} mentions, {chains} entities of more than one</p>"
        f'<p style="line-height:2">{" ".join(words)}</p>'
    )


@html_of.register
def estimator_html(model: Estimator) -> str:
    """The options of an estimator, those that were set in bold, and whether it is fitted."""
    given = model._set_options()
    state = "fitted" if model.__sklearn_is_fitted__() else "not fitted"
    rows = [
        (f"<b>{name}</b>" if name in given else name, f"<code>{escape(_short(value))}</code>")
        for name, value in sorted(model.get_params(deep=False).items(), key=lambda item: item[0] not in given)
    ]
    head = f"<b>{type(model).__name__}</b> <small>({state})</small>"
    return (
        f"<details{' open' if given else ''}><summary>{head}</summary>{_table(('option', 'value'), rows, 0)}</details>"
    )


def svg_of(picture: Any, *, follows: bool = False) -> str:
    """A picture of matplotlib as SVG text; ``follows``: words and lines have the colour of the page around them."""
    figure = picture.figure
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=follows, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    if follows:
        for ink in ("#000000", "#222222", "#333333", "#262626"):
            drawn = drawn.replace(f": {ink}", ": currentColor")
        drawn = drawn.replace("<svg ", '<svg fill="currentColor" ', 1)
    return f'<div style="max-width:100%;overflow-x:auto">{drawn}</div>'


def _bars(labels: Sequence[str], values: Sequence[float]) -> str:
    """Values with their probabilities, the most probable in bold, each over a bar as long as it is probable."""
    parts = []
    for label, value in list(zip(labels, values, strict=True))[:ROWS]:
        name = f"<b>{escape(str(label))}</b>" if value == max(values) else escape(str(label))
        bar = f"background:linear-gradient(90deg,{BLUE}55 {100 * value:.1f}%,transparent 0)"
        parts.append(f'<span style="{bar};padding:0 .5em;margin-right:.6em">{name} {value:.3f}</span>')
    return "".join(parts)


def _table(head: Iterable[str], rows: Sequence[tuple[str, ...]], count: int) -> str:
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    titles = "".join(f'<th style="text-align:left">{escape(title)}</th>' for title in head)
    more = f"<p><small>{count - len(rows)} more</small></p>" if count > len(rows) else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{more}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
