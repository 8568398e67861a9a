"""What notebooks show: well-formed HTML that says what the object says, and draws small things only."""

from __future__ import annotations

import sys
import types
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.apps import Tagger
from loopwise.apps.coref import made_documents
from loopwise.apps.parser.estimator import ParseTree
from loopwise.formats.conllu import make_sentence
from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import progress_bar
from loopwise.notebook import in_notebook
from loopwise.plot.html import html_of, svg_of

VOID = {"br", "img", "hr"}


class Balanced(HTMLParser):
    """Refuses tags that are not closed; SVG inside is checked by an XML parser."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(thing: Any) -> str:
    text: str = thing._repr_html_()
    Balanced(text)
    if "<svg" in text:
        ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    return text


def test_graphs_small_ones_drawn() -> None:
    small = shown(lw.grid(3, 3))
    assert "<svg" in small and "9 variables" in small
    large = shown(lw.grid(30, 30))
    assert "<svg" not in large and "900 variables" in large
    assert "<svg" not in shown(lw.FactorGraph([], {}))


def test_beliefs_and_status_in_plain_words() -> None:
    names = lw.formats.Vocabulary(("flu", "a<b"), (("no", "yes"), ("x", "y&z")))
    graph = lw.FactorGraph([2, 2], {"bias": [[0]], "pair": [[0, 1]]}, vocabulary=names)
    beliefs = lw.BP()(graph, {"bias": torch.tensor([[0.0, 1.0]]), "pair": torch.eye(2)})
    text = shown(beliefs)
    assert "these beliefs are exact" in text and "<b>yes</b> 0.731" in text and "a&lt;b" in text and "y&amp;z" in text
    assert "<b>yes</b> 0.731" in shown(beliefs["flu"])
    loopy = lw.graph.complete(4)
    tables = {"unary": torch.zeros(2), "pair": torch.tensor([[-2.0, 2.0], [2.0, -2.0]])}
    tables["unary"][1] = 0.1
    status = lw.BP(tolerance=0)(loopy, tables).status
    assert "did not converge" in shown(status) and "lw.explain" in shown(status)
    assert "approximate" in shown(lw.BP()(lw.grid(3, 3), lw.TablePotentials.random(lw.grid(3, 3), seed=0)).status)
    batch = lw.BP()(graph, {"bias": torch.zeros(5, 1, 2), "pair": torch.eye(2)})
    assert "Beliefs of 5 examples" in shown(batch)
    many = lw.BP()(lw.chain(30), lw.TablePotentials(lw.chain(30)))
    assert "10 more" in shown(many)
    assert "oscillate" in shown(lw.explain(lw.BP(tolerance=0)(loopy, tables), trials=False))


def test_history_as_a_curve() -> None:
    epochs = [Epoch(number, 1.0 / number, 0.1, dev=0.5) for number in (1, 2, 3)]
    text = shown(History(epochs, best=2, ended="3 epochs were asked for"))
    assert "<svg" in text and "3 epochs" in text and "epoch 2" in text and "currentColor" in text
    assert "no epoch" in shown(History())


def test_parses_documents_and_estimators() -> None:
    sentence = make_sentence(["dogs", "bark"], ["NOUN", "VERB"])
    marginals = np.array([[0, 0.1, 0.9], [0, 0, 0.1], [0, 0.9, 0]])
    tree = ParseTree(sentence.with_tree([2, 0]), (2, 0), ("nsubj", "root"), (0.9, 0.9), marginals)
    text = shown(tree)
    assert "dogs" in text and "nsubj 90%" in text and "NOUN" in text
    document = made_documents(1, seed=0)[0]
    text = shown(document)
    assert document.name in text and "mentions" in text and "<sub" in text
    assert text.count("<span") == len(document.mentions)
    text = shown(Tagger(hashing=64))
    assert "<b>hashing</b>" in text and "not fitted" in text and "templates" in text


def test_pictures_show_themselves() -> None:
    axes = lw.plot.history(History([Epoch(1, 1.0, 0.1)]))
    assert "<svg" in axes._repr_html_() and "<svg" in svg_of(axes)
    assert html_of(object()).startswith("<pre>")


def test_nothing_is_drawn_at_start() -> None:
    import subprocess

    code = "import sys, loopwise as lw; lw.chain(2); lw.learn.History(); print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


class Handle:
    def __init__(self, first: str) -> None:
        self.seen = [first]

    def update(self, html: str) -> None:
        self.seen.append(html)


def test_bars_in_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_notebook()
    handles: list[Handle] = []

    def display(html: str, display_id: bool) -> Handle:
        handles.append(Handle(html))
        return handles[-1]

    shell = types.SimpleNamespace(kernel=object())
    ipython, displays = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    displays.HTML, displays.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    assert in_notebook()
    with pytest.raises(RuntimeError), progress_bar(True, 4) as tell:
        tell(2.0, "epoch 2 & more")
        tell(3.0, "too soon to be shown")
        raise RuntimeError
    (handle,) = handles
    assert len(handle.seen) == 3 and 'value="2"' in handle.seen[1] and "epoch 2 &amp; more" in handle.seen[1]
    assert handle.seen[-1] == ""  # gone, also after an error
    with progress_bar(False, 4) as tell:
        tell(1.0, "not wanted")
    assert len(handles) == 1
