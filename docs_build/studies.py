"""The studies that are kept, in the navigation: ``docs/results/<study>/index.md`` appears there once it is written.

In: the configuration of the site. Out: the same, with a line under Results for each study. Stage: building the
documentation; mkdocs.yml names this file as a hook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TITLES = {  # in the order of the papers; a study that is not named here comes last, under its heading
    "erma": "ERMA: training through BP",
    "domke": "Domke: gradients of marginals",
    "samplerank": "SampleRank",
    "cost-aware": "Cost-aware policies",
    "parser": "Approximation-aware parsing",
    "decoder": "Decoders",
}
SECTION = "Results"


def kept_studies(docs: Path) -> list[dict[str, str]]:
    """Title and page of each study under ``docs/results``."""
    found = {path.parent.name: path for path in sorted((docs / "results").glob("*/index.md"))}
    ordered = [name for name in TITLES if name in found] + [name for name in found if name not in TITLES]
    return [{TITLES.get(name) or _heading(found[name]): f"results/{name}/index.md"} for name in ordered]


def _heading(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line[2:].strip() for line in lines if line.startswith("# ")), path.parent.name)


def on_config(config: Any) -> Any:
    """Called by mkdocs before anything is read."""
    results = next(entry[SECTION] for entry in config["nav"] if SECTION in entry)
    results += kept_studies(Path(config["docs_dir"]))
    return config
