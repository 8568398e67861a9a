"""``loopwise demo`` on a toy: a table, numbers, and a page that renders in any light and width and asks for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loopwise.cli.main import app
from oracles.browser import Browser, find_browser, running_browser

runner = CliRunner()
VOID = {"meta", "img", "source", "br"}  # tags that do not close


def invoke(*arguments: object) -> Result:
    return runner.invoke(app, ["demo", "--quick", "--jobs", "1", *map(str, arguments)])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("demo") / "new"
    return folder, invoke("--out", folder)


def test_a_table_the_findings_and_where_the_page_is(ran: tuple[Path, Result]) -> None:
    folder, result = ran
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert str(folder / "page.html") in result.stdout
    lines = [line.replace("│", " ").split() for line in result.stdout.splitlines()]
    for budget in ("100", "30", "10", "3"):
        row = next(line for line in lines if line[:1] == [budget] and len(line) > 4)
        assert 0 < float(row[1]) < 1 and 0 < float(row[2]) < 1
    assert "true model" in result.stdout and "% of pixels wrong" in result.stdout


def test_only_whole_files_are_left(ran: tuple[Path, Result]) -> None:
    assert sorted(path.name for path in ran[0].iterdir()) == ["page.html", "results.json"]


def test_the_numbers_are_in_the_common_schema(ran: tuple[Path, Result]) -> None:
    report = json.loads((ran[0] / "results.json").read_text())
    assert (report["paper"], report["mode"], report["seed"]) == ("demo", "quick", 0)
    losses = {(cell["row"], cell["column"]): cell for cell in report["cells"] if cell["item"] == "squared error"}
    assert set(losses) == {("true model", "truth")} | {
        (f"{budget} sweeps", goal) for budget in (100, 30, 10, 3) for goal in ("likelihood", "loss")
    }
    for cell in losses.values():
        assert cell["ours"] == pytest.approx(sum(cell["each"]) / len(cell["each"])) and cell["n"] == len(cell["each"])
    by_id = {claim["id"]: claim["holds"] for claim in report["claims"]}
    for budget in (100, 30, 10, 3):
        likely, lossy = (losses[f"{budget} sweeps", goal]["ours"] for goal in ("likelihood", "loss"))
        assert by_id[f"{budget}-sweeps"] is (lossy < likely)


def test_json_is_the_file_and_another_run_replaces_it(ran: tuple[Path, Result]) -> None:
    folder, _ = ran
    before = json.loads((folder / "results.json").read_text())
    result = invoke("--out", folder, "--json")
    report = json.loads(result.stdout)
    assert report == json.loads((folder / "results.json").read_text())
    without_times = [{**cell, "seconds": 0} for cell in report["cells"]]
    assert without_times == [{**cell, "seconds": 0} for cell in before["cells"]]  # the same seed, the same numbers


def test_results_of_something_else_are_not_overwritten(tmp_path: Path) -> None:
    other = {"paper": "erma", "mode": "quick", "seed": 0, "cells": [], "claims": [], "seconds": 1.0}
    (tmp_path / "results.json").write_text(json.dumps(other))
    result = invoke("--out", tmp_path)
    assert result.exit_code == 2 and "choose another folder" in result.stderr and result.stdout == ""
    assert json.loads((tmp_path / "results.json").read_text()) == other


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--jobs", "0", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "--jobs must be at least 1, not 0" in result.stderr


# --- The page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(ran: tuple[Path, Result]) -> Path:
    return ran[0] / "page.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with running_browser(program, tmp_path_factory.mktemp("profile")) as running:
        yield running


class Reader(HTMLParser):
    """Checks that tags close in order, and collects addresses and images."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        named = dict(attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "srcset", "href")]
        if tag == "img":
            self.images.append(named)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_toy_says_so(page: Path) -> None:
    assert "toy of --quick" in page.read_text(encoding="utf-8")


def test_the_file_holds_everything_it_shows(page: Path) -> None:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.open == []
    assert len(reader.images) == 10 and all(image["alt"] for image in reader.images)
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert not reader.tags & {"script", "link", "iframe", "object"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_it_renders(browser: Browser, page: Path, width: int, dark: bool) -> None:
    seen = browser.load(page, width=width, dark=dark)
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
    sizes = browser.evaluate("[...document.images].map(image => [image.naturalWidth, image.clientWidth])")
    assert len(sizes) == 10 and all(natural > 0 and shown > 100 for natural, shown in sizes)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out sideways
    assert "In one minute" in browser.evaluate("document.body.innerText")
    red, green, blue = browser.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert (red + green + blue < 200) is dark
    sources = browser.evaluate("[...document.querySelectorAll('picture img')].map(i => i.currentSrc === i.src)")
    assert sources == [not dark] * 6  # the pictures follow the ground


def test_the_browser_notices_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    """The test above can fail: a missing image, a script that fails and one that talks to the network."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<body style="width: 2000px"><img src="missing.png"><script>console.error("oh"); '
        'fetch("http://127.0.0.1:9/x").catch(() => 0); nonsense()</script>'
    )
    seen = browser.load(bad, width=400)
    assert any("missing.png" in url for url in seen.requests)
    assert any("oh" in text for text in seen.complaints) and any("nonsense" in text for text in seen.complaints)
    assert browser.evaluate("document.images[0].naturalWidth") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") > 400
