"""Files and the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from loopwise.apps.dedupe import Resolution
from loopwise.apps.dedupe.page import write_page
from oracles.dedupe_cases import TEST


def test_files_and_page(found: Resolution, tmp_path: Path) -> None:
    found.write(tmp_path / "out.csv")
    found.write_links(tmp_path / "links.csv")
    found.write_canonical(tmp_path / "one.csv")
    write_page(found, tmp_path / "page.html", count=3)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [int(row["cluster_id"]) for row in rows] == found.clusters.tolist()
    assert rows[0]["name"] == TEST.column("name")[0]
    assert len(list(csv.DictReader((tmp_path / "links.csv").open()))) == len(found.links())
    assert len(list(csv.DictReader((tmp_path / "one.csv").open()))) == found.clusters.max() + 1
    page = (tmp_path / "page.html").read_text()
    assert "http" not in page and f"{len(TEST)} records" in page and "<h2 id=" in page
    places, targets = set(re.findall("id='(c[0-9]+)'", page)), set(re.findall("href='#(c[0-9]+)'", page))
    assert len(places) == 3 and targets <= places and "log-odds" in page
