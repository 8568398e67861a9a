"""The speed dial on real data: sentences a second against attachment, images a second against wrong pixels.

    python benchmarks/dial.py [--quick] [--data DIR] [--only parser|images] [--out FOLDER]

A dependency parser on English (EWT) and a grid model of binary images (BSDS) are trained once (minutes; kept in the
folder), then run under everything that makes them faster: fewer iterations of BP, fewer arcs or pairs, sentences and
images that stop by themselves, dearer models only where they are expected to pay. Each setting is checked before it is
timed; settings take turns, one thread. The folder gets `dial.json`, `dial.md` and `dial.png`; a quick run saves
nothing. Last line of output: JSON with `parser` and `images`, lists of [curve, setting, a second, error].
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from common import DEFAULT_DATA, REPOSITORY, load_json, option_parser, print_summary, save_json, save_text
from dial_rows import Dial, Row

PARSER, IMAGES = "parser", "images"
SHOWN = 100  # times as fast as the first setting at most, to be in the picture


def main() -> None:
    options = option_parser(__doc__.splitlines()[0])
    options.add_argument("--only", choices=[PARSER, IMAGES], help="one of the two (default: both)")
    options.add_argument("--out", type=Path, default=REPOSITORY / "out" / "dial", help="folder (default: %(default)s)")
    options.add_argument("--repeats", type=int, help="rounds of timing (default 5, quick 3)")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    from loopwise.notices import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    data = chosen.data or DEFAULT_DATA
    found: dict[str, tuple[Dial, list[Row]]] = {}
    for name in (PARSER, IMAGES):
        if chosen.only in (None, name):
            dial = make(name, data, chosen.quick, chosen.out)
            rows = dial.timed(chosen.repeats or (3 if chosen.quick else 5))
            found[name] = (dial, rows)
            print(f"{dial.title}\n\n{dial.table(rows)}", flush=True)
    if not chosen.quick:
        save(found, chosen.out)
    summary: dict[str, object] = {"benchmark": "dial", "quick": chosen.quick}
    for name, (dial, rows) in found.items():
        summary[name] = [[r.curve, r.name, round(r.rate, 2), round(r.error, 3)] for r in rows]
        summary[f"{name}_about"] = dial.about
    print_summary(summary)


def make(name: str, data: Path, quick: bool, folder: Path) -> Dial:
    """Trains or loads, and lists the settings."""
    if name == PARSER:
        from dial_parser import parser_dial

        return parser_dial(data, quick, None if quick else folder)
    from dial_images import image_dial

    return image_dial(data, quick)


def save(found: dict[str, tuple[Dial, list[Row]]], folder: Path) -> None:
    """JSON, tables and one picture with a panel a system; what another run left for the other one stays in the JSON."""
    from loopwise.plot.curves import Curve, Panel, panels
    from loopwise.plot.style import save as save_picture

    known = load_json(folder / "dial.json") or {}
    for name, (dial, rows) in found.items():
        known[name] = {"title": dial.title, "unit": dial.unit, "error": dial.error, "about": dial.about,
                       "rows": [vars(row) for row in rows], "table": dial.table(rows)}  # fmt: skip
    save_json(folder / "dial.json", known)
    save_text(folder / "dial.md", "\n".join(f"## {part['title']}\n\n{part['table']}" for part in known.values()))
    shown = []
    for part in known.values():
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in part["rows"]:
            if row["rate"] > SHOWN * part["rows"][0]["rate"]:  # no inference at all: in the table, but off the picture
                continue
            curves.setdefault(row["curve"], []).append((row["rate"], row["error"]))
        lines = [Curve(name, *zip(*sorted(points), strict=True)) for name, points in curves.items()]
        shown.append(Panel(part["title"], f"{part['unit']} a second", part["error"], lines))
    save_picture(panels(shown), folder / "dial.png")


if __name__ == "__main__":
    main()
