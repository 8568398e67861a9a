"""Grid models of images at full size: inference, gradients by each estimator, scaling, memory.

    python benchmarks/images.py [--quick]

TRW with edge probabilities of .5 to a tolerance of 1e-5 on a binary image of 200 x 300 pixels with the noise and the
trained weights of Domke's study (a Berkeley image where the data collection is at hand, else a random field); the loss
is the univariate likelihood. Gradients by all estimators are compared before anything is timed. Then square images of
64 to 1024 pixels a side, with the rise of the process's memory over one gradient. Last line of output: JSON with
`ns_per_message`, `seconds_per_gradient`, `perturbation_over_inference` and more; kernels run on two threads unless the
name says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from common import option_parser, print_summary
from loopwise.apps.grid_crf import GridCRF
from loopwise.compare.memory import peak_rise
from loopwise.gradient.base import Gradient
from loopwise.gradient.fixed_point import FixedPoint
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Unroll
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import TRW
from loopwise.inference.messages.schedules import Sequential
from loopwise.loss.univariate import UnivariateLikelihood
from studies.domke.images.data import ImageCounts, find_berkeley, natural
from timing import medians

ROWS, COLUMNS = 200, 300
BASE = TRW(rho=0.5, tolerance=1e-5, iterations=1000, engine=Compiled(2), gradient=Perturbation())
ESTIMATORS: dict[str, Gradient] = {
    "perturbation": Perturbation(),
    "perturbation, one-sided": Perturbation(two_sided=False),
    "fixed point": FixedPoint(tolerance=1e-4),  # as published
    "unroll": Unroll(),
}
AGREE = 1e-3  # relative difference of gradients, all of which rest on marginals good to 1e-5
# About where training for the univariate likelihood ends on the Berkeley images.
WEIGHTS = {
    "unary.weight": [[-1.3], [1.3]],
    "unary.bias": [0.65, -0.65],
    "pair.table": [[[0.75, -0.75], [-0.75, 0.75]]],
}


@dataclass
class Picture:
    """One noisy image, its answer, and the model with its weights."""

    model: GridCRF
    image: Tensor  # [1, 1, rows, columns]
    labels: Tensor  # [1, pixels]

    def beliefs(self, method: TRW, tables: dict[str, Tensor]) -> Beliefs:
        return method(self.graph, tables)

    @property
    def graph(self):
        return self.model.potentials_.lattice(*self.image.shape[-2:]).graph

    def inference(self, method: TRW) -> Callable[[], Beliefs]:
        """Marginals alone."""

        def run() -> Beliefs:
            with torch.no_grad():
                return method(self.graph, self.model.potentials_(self.image))

        return run

    def gradient(self, method: TRW) -> Callable[[], Tensor]:
        """The derivative of the loss for every weight."""
        weights = list(self.model.potentials_.parameters())

        def run() -> Tensor:
            beliefs = method(self.graph, self.model.potentials_(self.image))
            loss = UnivariateLikelihood()(beliefs, self.labels)
            return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, weights)])

        return run


def full_size(data) -> Picture:
    """One image of the study."""
    path = None
    if data.is_dir():
        try:
            path = find_berkeley(data)
        except ValueError:
            path = None
    found = natural(path, ImageCounts(train=1, test=1), seed=0)
    return _picture(found.train[0], found.train[1])


def square(side: int) -> Picture:
    """A random field of another size."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(side)
    field = gaussian_filter(rng.standard_normal((1, side, side)), sigma=(0, 5, 5))
    labels = (field > field.mean()).astype(np.int64)
    moved = rng.random(labels.shape) ** 1.25
    return _picture(np.where(labels == 1, 1 - moved, moved), labels)


def _picture(noisy: np.ndarray, labels: np.ndarray) -> Picture:
    model = GridCRF()
    potentials = model.begin(1)
    potentials.load_state_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in WEIGHTS.items()})
    return Picture(model, torch.from_numpy(noisy)[:, None], torch.from_numpy(labels.reshape(len(labels), -1)))


def check(picture: Picture) -> None:
    """Stops if the estimators do not agree with adjoint sweeps at tight convergence."""
    tight = replace(BASE, tolerance=1e-9, gradient=FixedPoint(tolerance=1e-9))
    truth = picture.gradient(tight)()
    for name, gradient in ESTIMATORS.items():
        error = float((picture.gradient(replace(BASE, gradient=gradient))() - truth).norm() / truth.norm())
        print(f"{name:26s} relative error of the gradient {error:.1e}", flush=True)
        if not error <= AGREE:
            raise SystemExit(f"the gradient by {name} is off by {error:.2g}: nothing was timed")


def time_estimators(picture: Picture, repeats: int) -> dict[str, float]:
    one = replace(BASE, engine=Compiled(1))
    contenders: dict[str, Callable[[], object]] = {
        "inference": picture.inference(BASE),
        "inference, one thread": picture.inference(one),
        "inference, sequential": picture.inference(replace(BASE, schedule=Sequential())),
        "perturbation, one thread": picture.gradient(one),
        "perturbation, sequential": picture.gradient(replace(BASE, schedule=Sequential())),
    }
    contenders |= {name: picture.gradient(replace(BASE, gradient=each)) for name, each in ESTIMATORS.items()}
    seconds = medians(contenders, repeats)
    for name, value in seconds.items():
        print(f"{picture.image.shape[-2]} x {picture.image.shape[-1]}: {name:26s} {1e3 * value:9.1f} ms", flush=True)
    return seconds


def ns_per_message(picture: Picture, method: TRW, seconds: float) -> float:
    """Time of a message of a run, everything around the sweeps included."""
    return 1e9 * seconds / picture.inference(method)().status.messages


def scaling(sides: list[int], repeats: int) -> dict[str, dict[str, float | None]]:
    found = {}
    for side in sides:
        picture = square(side)
        seconds = medians({"inference": picture.inference(BASE), "gradient": picture.gradient(BASE)}, repeats)
        status = picture.inference(BASE)().status
        row = {
            "pixels": side * side,
            "sweeps": int(status.sweeps.max()),
            "seconds_inference": seconds["inference"],
            "seconds_gradient": seconds["gradient"],
            "ns_per_message": 1e9 * seconds["inference"] / status.messages,
            "peak_mb": peak_megabytes(picture),
        }
        found[str(side)] = row
        print(
            f"{side:5d}^2: {row['sweeps']:4d} sweeps, inference {1e3 * row['seconds_inference']:8.1f} ms, gradient "
            f"{1e3 * row['seconds_gradient']:8.1f} ms, {row['ns_per_message']:.2f} ns a message, "
            f"{row['peak_mb'] or float('nan'):.0f} MB",
            flush=True,
        )
    return found


def slope(found: dict[str, dict[str, float]]) -> float:
    """The power of the pixels that the time of a sweep grows by, from the smallest to the largest image."""
    rows = list(found.values())
    first, last = rows[0], rows[-1]
    times = [row["seconds_gradient"] / row["sweeps"] for row in (first, last)]
    return math.log(times[1] / times[0]) / math.log(last["pixels"] / first["pixels"])


def peak_megabytes(picture: Picture) -> float | None:
    """How much the resident memory rises over one gradient at its highest; None where the system cannot say."""
    rise = peak_rise(picture.gradient(BASE))
    return None if rise is None else rise / 2**20


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    options = parser.parse_args()
    torch.set_num_threads(1)  # the kernels have two: two pools of threads would fight over two cores
    repeats = 3 if options.quick else 7
    picture = square(96) if options.quick else full_size(options.data)
    check(picture)
    seconds = time_estimators(picture, repeats)
    status = picture.inference(BASE)().status
    if status.domain != "probability":
        raise SystemExit(f"inference ran in the {status.domain} domain")
    grown = scaling([64, 128] if options.quick else [64, 128, 256, 512, 1024], 3)
    print_summary(
        {
            "ns_per_message": ns_per_message(picture, BASE, seconds["inference"]),
            "ns_per_message_one_thread": ns_per_message(picture, BASE, seconds["inference, one thread"]),
            "seconds_per_gradient": seconds["perturbation"],
            "seconds_per_gradient_one_thread": seconds["perturbation, one thread"],
            "seconds_per_inference": seconds["inference"],
            "perturbation_over_inference": seconds["perturbation"] / seconds["inference"],
            "one_sided_over_inference": seconds["perturbation, one-sided"] / seconds["inference"],
            "fixed_point_over_inference": seconds["fixed point"] / seconds["inference"],
            "unroll_over_inference": seconds["unroll"] / seconds["inference"],
            "sequential_over_flooding": seconds["inference, sequential"] / seconds["inference"],
            "sweeps": int(status.sweeps.max()),
            "pixels": int(picture.labels.numel()),
            "power_of_pixels": slope(grown),
            "peak_mb": next(reversed(grown.values()))["peak_mb"],
            "scaling": grown,
        }
    )


if __name__ == "__main__":
    main()
