"""The documentation as a web site: it builds, links lead somewhere, nothing is fetched, every public name is there."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import loopwise
from oracles import browser

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_mkdocs = pytest.mark.skipif(
    bool(MISSING), reason=f"the site needs {', '.join(MISSING)}; pip install 'loopwise[docs]'"
)


@dataclass
class Page:
    """What one page of the site has and points to."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)  # what a browser loads by itself


class Reader(HTMLParser):
    """Anchors, links and fetched files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.page = Page(path)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.page.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.page.fetched.append(given["src"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.page.fetched.append(given["href"])


@dataclass(frozen=True)
class Site:
    folder: Path
    pages: dict[Path, Page]

    @property
    def reference(self) -> list[Path]:
        return sorted((self.folder / "api").glob("*.html"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site, built so that any warning is an error (``--quiet`` would hide warnings from ``--strict``)."""
    if MISSING:
        pytest.skip(f"the site needs {', '.join(MISSING)}")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {}
    for path in folder.rglob("*.html"):
        reader = Reader(path)
        reader.feed(path.read_text(encoding="utf-8"))
        pages[path] = reader.page
    return Site(folder, pages)


@needs_mkdocs
def test_links_lead_to_pages_and_places_that_exist(site: Site) -> None:
    broken = []
    for page in site.pages.values():
        if page.path.name == "404.html":  # its links are relative to the root of a server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            if target.is_dir():
                target = target / "index.html"
            known = site.pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                broken.append(f"{page.path.relative_to(site.folder)}: {link}")
    assert not broken, broken


@needs_mkdocs
def test_the_site_needs_no_network(site: Site) -> None:
    elsewhere = [
        f"{page.path.name}: {address}"
        for page in site.pages.values()
        for address in page.fetched
        if urlsplit(address).netloc
    ]
    for sheet in site.folder.rglob("*.css"):
        elsewhere += re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)|@import [^;]*//[^;]*", sheet.read_text("utf-8"))
    assert not elsewhere, elsewhere


def public_names() -> Iterator[tuple[ModuleType, str]]:
    """Every name that a user may write, with the module it is asked of."""
    for name in loopwise.__all__:
        value = getattr(loopwise, name)
        if isinstance(value, ModuleType):
            own = getattr(value, "__all__", None) or [
                word
                for word, thing in vars(value).items()
                if word[0] != "_" and getattr(thing, "__module__", "") == value.__name__
            ]
            yield from ((value, word) for word in own)
        else:
            yield loopwise, name


def documented(folder: Path) -> set[str]:
    """The names of the inventory that mkdocstrings writes (that of Sphinx: four lines of text, then zlib)."""
    content = (folder / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ", 1)[0] for line in zlib.decompress(content).decode().splitlines()}


@needs_mkdocs
def test_every_public_name_is_in_the_reference(site: Site) -> None:
    known = documented(site.folder)
    assert len(known) > 300
    lost = []
    for module, name in public_names():
        value: Any = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        paths = {f"{module.__name__}.{name}"}
        if hasattr(value, "__qualname__"):
            paths.add(f"{value.__module__}.{value.__qualname__}")
        else:  # a constant: it may stand where it was made
            paths |= {path for path in known if path.rsplit(".", 1)[-1] == name}
        if not paths & known:
            lost.append(f"{module.__name__}.{name}")
    assert not lost, f"these have no entry on any page of docs/api: {lost}"


@needs_mkdocs
def test_docstrings_are_set_as_text_and_formulas(site: Site) -> None:
    assert len(site.reference) > 10
    formulas = 0
    for path in site.reference:
        text = path.read_text(encoding="utf-8")
        visible = re.sub(r"<(pre|script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r":(class|func|meth|mod|data|attr|math):", visible), path.name
        assert ".. math::" not in text and "&lt;loopwise." not in visible, path.name
        assert "&gt;&gt;&gt;" not in re.sub(r"<code>.*?</code>", "", visible, flags=re.DOTALL), path.name
        formulas += text.count("<math ")
    assert formulas > 50


@needs_mkdocs
def test_every_formula_became_mathml(site: Site) -> None:
    for page in site.pages:
        text = page.read_text(encoding="utf-8")
        assert 'class="arithmatex"' not in text, page.name
        assert "<merror" not in text, page.name
        assert not re.search(r"<m[a-z]+>\\[a-z]", text), f"{page.name} shows a command of TeX"


@needs_mkdocs
def test_the_site_opens_as_a_file_and_can_be_searched(site: Site, tmp_path: Path) -> None:
    program = browser.find_browser()
    if program is None:
        pytest.skip("no Chromium is installed: the site is not opened")
    with browser.running_browser(program, tmp_path / "profile") as page:
        seen = page.load(site.folder / "tutorials" / "factor.html")
        assert not seen.complaints, seen.complaints
        asked = [address for address in seen.requests if urlsplit(address).scheme not in ("file", "data")]
        assert not asked, asked
        page.evaluate("document.querySelector('[data-md-toggle=search]').click()")
        page.evaluate(TYPE)
        assert page.evaluate(FOUND) > 0


TYPE = """(() => {
    const field = document.querySelector('[data-md-component=search-query]')
    field.focus(); field.value = 'structured'; field.dispatchEvent(new Event('keyup'))
})()"""
FOUND = """new Promise(done => {
    const look = left => {
        const count = document.querySelectorAll('.md-search-result__item').length
        count || !left ? done(count) : setTimeout(look, 200, left - 1)
    }
    look(200)
})"""


# ------------------------------------------------------------------------------------------ what the build is made of


def build_module(name: str) -> ModuleType:
    """A module of docs_build, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_build_{name}", ROOT / "docs_build" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCSTRING = r"""One line with :math:`x_i` and :class:`~loopwise.graph.FactorGraph`, also :meth:`near`.

.. math:: a = b
          + c

Parameters
----------
size:
    How many; see :func:`loopwise.grid` and :func:`the other <loopwise.chain>`.
first, last:
    Two at once.

After the list.

>>> 1 + 1
2
"""


@needs_mkdocs
def test_docstrings_become_markdown() -> None:
    made = build_module("docstrings").to_markdown(DOCSTRING)
    assert "$x_i$" in made
    assert '<autoref identifier="loopwise.graph.FactorGraph" optional><code>FactorGraph</code></autoref>' in made
    assert '<autoref identifier="loopwise.chain" optional><code>the other</code></autoref>' in made
    assert "`near`" in made and ":meth:" not in made
    assert "\n$$ a = b + c $$\n" in made
    assert "**Parameters**\n\n- `size`:\n    How many; see" in made
    assert "- `first`, `last`:\n    Two at once." in made
    assert "```pycon\n>>> 1 + 1\n2\n```" in made
    assert made.index("After the list.") < made.index("```pycon")


@needs_mkdocs
def test_a_docstring_without_marks_stays_as_it_is() -> None:
    plain = "Adds.\n\nParameters of the model are given first: see there.\n\n    indented"
    assert build_module("docstrings").to_markdown(plain) == plain


@needs_mkdocs
def test_formulas_become_mathml() -> None:
    with_mathml = build_module("formulas").with_mathml
    inline = with_mathml(r'so <span class="arithmatex">\(a &lt; b\)</span> holds')
    assert (
        inline.startswith('so <span class="formula"><math ') and 'display="inline"' in inline and "&#x0003C;" in inline
    )
    block = with_mathml('<div class="arithmatex">\\[\n\\frac12\n\\]</div>')
    assert 'display="block"' in block and "<mfrac>" in block and 'alttext="\\frac12"' in block
    assert "<mo>arg</mo>" in with_mathml(r'<span class="arithmatex">\(\arg\min_y f\)</span>')
    assert with_mathml("<p>nothing here</p>") == "<p>nothing here</p>"


def test_pictures_open_in_full_and_examples_tell_nothing_of_tests() -> None:
    pictures, prompts = build_module("pictures"), build_module("prompts")
    plot = '<img alt="A plot" src="images/plot.png" />'
    assert pictures.with_links(f"<p>{plot}</p>") == f'<p><a class="picture" href="images/plot.png">{plot}</a></p>'
    for other in (
        f"<p>Text {plot}</p>",
        f'<p><a href="x.html">{plot}</a></p>',
        '<p><img src="data:image/png;base64,"></p>',
    ):
        assert pictures.with_links(other) == other
    shown = prompts.on_page_markdown("```python\n>>> f(2)  # doctest: +ELLIPSIS\n4  # kept\n```")
    assert shown == "```pycon\n>>> f(2)\n4  # kept\n```"


def test_studies_that_are_kept_are_in_the_navigation(tmp_path: Path) -> None:
    for name in ("parser", "erma", "zeta", "half-done"):
        (tmp_path / "results" / name).mkdir(parents=True)
    for name in ("parser", "erma", "zeta"):
        (tmp_path / "results" / name / "index.md").write_text(f"# Of {name}\n\nText\n")
    found = build_module("studies").kept_studies(tmp_path)
    assert [next(iter(entry.values())) for entry in found] == [
        "results/erma/index.md",
        "results/parser/index.md",
        "results/zeta/index.md",
    ]
    assert list(found[2]) == ["Of zeta"]


@needs_mkdocs
def test_examples_are_copied_without_prompts_and_answers(site: Site, tmp_path: Path) -> None:
    program = browser.find_browser()
    if program is None:
        pytest.skip("no Chromium is installed")
    # What the theme's copy button does: mark the block, read what is shown.
    script = """(() => [...document.querySelectorAll('.highlight code')].map(block => {
        block.setAttribute('data-md-copying', '');
        const text = block.innerText;
        block.removeAttribute('data-md-copying');
        return text;
    }))()"""
    with browser.running_browser(program, tmp_path / "profile") as page:
        page.load(site.folder / "status.html")
        blocks = page.evaluate(script)
    assert any("lw.explain(beliefs)" in block for block in blocks)
    assert not any(">>>" in block or "approximate, converged" in block for block in blocks)


@needs_mkdocs
def test_plots_follow_the_dark(site: Site, tmp_path: Path) -> None:
    program = browser.find_browser()
    if program is None:
        pytest.skip("no Chromium is installed")
    script = "getComputedStyle(document.querySelector('.md-typeset img')).filter"
    with browser.running_browser(program, tmp_path / "profile") as page:
        page.load(site.folder / "index.html", dark=True)
        assert "invert" in page.evaluate(script)
        kept = page.load(site.folder / "plots.html", dark=True)
        assert not kept.complaints, kept.complaints
        shown = page.evaluate(FILTERS)
        assert "invert" in shown["sweeps.png"] and shown["landscape_map.png"] == "none"  # colours that mean something


FILTERS = """Object.fromEntries([...document.querySelectorAll('.md-typeset img')].map(
    picture => [picture.src.split('/').pop(), getComputedStyle(picture).filter]))"""
WIDTHS = "[document.documentElement.scrollWidth, ...[...document.images].map(i => i.naturalWidth)]"


@needs_mkdocs
def test_nothing_sticks_out_on_a_phone(site: Site, tmp_path: Path) -> None:
    """Pages with wide tables, formulas within lines, code and pictures; all pictures are there."""
    program = browser.find_browser()
    if program is None:
        pytest.skip("no Chromium is installed")
    names = "index choosing inference api/decode results/erma/index results/erma/page results/cost-aware/page plots"
    with browser.running_browser(program, tmp_path / "profile") as page:
        for name in names.split():
            page.load(site.folder / f"{name}.html", width=390)
            width, *pictures = page.evaluate(WIDTHS)
            assert width <= 390 and all(pictures), name
