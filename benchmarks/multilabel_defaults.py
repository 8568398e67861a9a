"""Which learner should train a set of labels where nobody says: held-out error of candidates as they are, untuned.

    python benchmarks/multilabel_defaults.py [--data FOLDER] [--quick]

Test data take no part. The training split of each data set (Scene, Yeast, Flags, Medical, Genbase) is parted into
fifths, each of which is held out in turn (with --quick the first alone). A candidate is a learner with one setting for
all data sets, since a default does not know which one it meets: SampleRank with four caps of its MIRA steps, or with
four shares of a full step as cap, and likelihood under BP with four penalties. The rule, written before there were
numbers: the least mean rank over data sets by held-out Hamming error, the smaller mean error among equals. (Shares came
in after the first fifths had been seen, where no cap did for all data sets.) Last line of output: JSON with `chosen`,
`errors` in percent, `ranks`, `seconds` of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from common import folder_in, option_parser, print_summary
from loopwise import walk
from loopwise.apps.multilabel import LabelLearner, LabelLikelihood, LabelSampleRank, MultiLabel, read_labelled

SETS = ("scene", "yeast", "flags", "medical", "genbase")
FIFTHS = 5
CAPS, PENALTIES = (1e-3, 1e-4, 3e-5, 1e-5), (10.0, 30.0, 100.0, 300.0)
SHARES = (0.003, 0.01, 0.03, 0.1)
CANDIDATES: dict[str, Callable[[], LabelLearner]] = {
    **{f"LabelSampleRank(step=MIRA({cap:g}))": lambda cap=cap: LabelSampleRank(step=walk.MIRA(cap)) for cap in CAPS},
    **{f"LabelSampleRank(share={share:g})": lambda share=share: LabelSampleRank(share=share) for share in SHARES},
    **{f"LabelLikelihood({l2:g})": lambda l2=l2: LabelLikelihood(l2) for l2 in PENALTIES},
}


def held_out(folder: Path, name: str, make: Callable[[], LabelLearner], folds: int) -> tuple[float, float]:
    """Hamming error in percent over held-out fifths of the training split, and seconds of the processor."""
    data = read_labelled(folder / name / f"{name}-train.arff.gz", folder / name / f"{name}.xml")
    assert data.labels is not None
    order, wrong, count, seconds = np.random.default_rng(0).permutation(len(data)), 0.0, 0, 0.0
    for fold in range(folds):
        dev, rest = order[fold::FIFTHS], np.setdiff1d(order, order[fold::FIFTHS])
        since = time.process_time()
        model = MultiLabel(make(), seed=fold).fit(data.inputs[rest], data.labels[rest], progress=False)
        seconds += time.process_time() - since
        wrong += len(dev) * (1 - model.score(data.inputs[dev], data.labels[dev]))
        count += len(dev)
    return 100 * wrong / count, seconds


def chosen(errors: dict[str, dict[str, float]]) -> tuple[str, dict[str, float]]:
    """The candidate of least mean rank, and all mean ranks. ``errors``: by candidate and data set."""
    names = list(errors)
    table = np.array([list(errors[name].values()) for name in names])  # [candidates, sets]
    ranks = np.mean([rankdata(column) for column in table.T], axis=0)
    best = min(range(len(names)), key=lambda place: (ranks[place], table[place].mean()))
    return names[best], dict(zip(names, ranks.tolist(), strict=True))


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="data sets to use")
    parser.add_argument("--candidates", default="", help="only those whose names begin so")
    options = parser.parse_args()
    folder = folder_in(options.data, "multilabel")
    folds = 1 if options.quick else FIFTHS
    candidates = {name: make for name, make in CANDIDATES.items() if name.startswith(options.candidates)}
    errors: dict[str, dict[str, float]] = {name: {} for name in candidates}
    seconds = dict.fromkeys(candidates, 0.0)
    for name in options.sets:
        for candidate, make in candidates.items():
            errors[candidate][name], taken = held_out(folder, name, make, folds)
            seconds[candidate] += taken
            print(f"{name:8} {candidate:26} {errors[candidate][name]:7.3f} {taken:7.1f} s", flush=True)
    best, ranks = chosen(errors)
    print_summary({"chosen": best, "ranks": ranks, "errors": errors, "seconds": seconds})


if __name__ == "__main__":
    main()
