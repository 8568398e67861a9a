"""``loopwise decode train | run | evaluate | combine``: decoders of error-correcting codes, from files to files.

Reports go to standard output, decoders and corrections to files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopwise.cli.groups import AsJson, grouped, refuse_idle
from loopwise.cli.messages import one_line_each
from loopwise.cli.targets import MOST_ITERATIONS, SUFFIX, check_outputs, named_after, target_of

if TYPE_CHECKING:
    from loopwise.apps.decoder import Code, Counts, Decoder, Leg, Shots

HEADER = ("shots", "errors", "unexplained", "bit_errors", "sweeps", "seconds", "settings")

decode = typer.Typer(
    help="Decoders of error-correcting codes, classical and quantum.", no_args_is_help=True, add_completion=False
)


class RuleName(str, Enum):
    """What checks compute, by name."""

    MIN_SUM = "min-sum"
    SUM_PRODUCT = "sum-product"


class DecoderLossName(str, Enum):
    """What to train for, by name."""

    RESIDUAL = "residual"
    OBSERVABLES = "observables"
    BITS = "bits"
    BIT_ERRORS = "bit-errors"
    BLOCK = "block"


_CODE = (
    "A check matrix (.alist; .txt or .csv of 0 and 1; .npy; .npz of SciPy), a stim circuit (.stim) or a detector error "
    "model (.dem); .gz may follow a text."
)
_MODEL = "A file that loopwise decode train saved, or a code as there, to be decoded untrained."
_IN_CODES = ("observables", "rule", "scale", "offset", "sweeps", "layered")  # settings that saved decoders have
_FLIPS = ("flips",)  # what a Gaussian channel makes no use of is for these
_OutOf = Annotated[float | None, typer.Option(help="A Gaussian channel (BPSK) with this Eb/N0 in place of flips.")]


@dataclass(frozen=True)
class CodeOptions:
    """What commands say of a code that stands in a file by itself, and of the message passing over its checks."""

    p: Annotated[
        float | None, typer.Option("--p", help="The probability of a flip, of every bit; for check matrices.")
    ] = None
    observables: Annotated[
        Path | None, typer.Option(help="A matrix, as the code's, of sums of flips that are to be right.")
    ] = None
    rule: Annotated[RuleName, typer.Option(help="What checks compute.")] = RuleName.MIN_SUM
    scale: Annotated[float, typer.Option(help="The normalisation of the min-sum.")] = 1.0
    offset: Annotated[float, typer.Option(help="The offset of the min-sum.")] = 0.0
    sweeps: Annotated[
        int | None,
        typer.Option(
            help="Sweeps of each leg, at most.", min=1, max=MOST_ITERATIONS, show_default="20 in training, else 50"
        ),
    ] = None
    layered: Annotated[bool, typer.Option("--layered", help="Check by check, each hearing of the last.")] = False
    osd: Annotated[int | None, typer.Option(help="Ordered statistics of this order on shots left unexplained.")] = None

    def code(self, path: Path, decibels: float | None) -> Code:
        """The code of a file."""
        from loopwise.apps.decoder import Code
        from loopwise.apps.decoder.circuits import code_of_circuit, code_of_model

        if _is(path, ".stim", ".dem"):
            for name, value in (("--p", self.p), ("--decibels", decibels), ("--observables", self.observables)):
                if value is not None:
                    raise ValueError(f"{name} is for check matrices; {path.name} says itself what happens")
            return code_of_circuit(path) if _is(path, ".stim") else code_of_model(path)
        if self.p is None and decibels is None:
            raise ValueError(f"{path.name} says nothing of how likely flips are; give --p, or --decibels")
        return Code.of(path, 0.1 if self.p is None else self.p, observables=self.observables)

    def check_rule(self, context: typer.Context) -> None:
        """Raises where a correction is given that the rule has not."""
        alone = (RuleName.MIN_SUM.value,)
        refuse_idle(context, self.rule.value, {"scale": alone, "offset": alone})

    def decoder(self, code: Code, legs: list[Leg] | None = None) -> Decoder:
        """An untrained decoder of a code."""
        from loopwise.apps.decoder import Decoder, MinSum, SumProduct

        rule = SumProduct() if self.rule is RuleName.SUM_PRODUCT else MinSum(self.scale, self.offset)
        sweeps = 50 if self.sweeps is None else self.sweeps
        return Decoder(code, rule=rule, sweeps=sweeps, legs=legs, layered=self.layered, second=_second(self.osd))

    def read(self, path: Path, decibels: float | None, context: typer.Context) -> Decoder:
        """A saved decoder, or an untrained one for the code of a file."""
        from loopwise.apps.decoder import Decoder
        from loopwise.formats.check_matrix import SUFFIXES
        from loopwise.formats.errors import FormatError
        from loopwise.formats.files import display_name

        if _is(path, ".stim", ".dem", *SUFFIXES):
            self.check_rule(context)
            return self.decoder(self.code(path, decibels))
        try:
            decoder = Decoder.load(path)
        except FormatError as problem:
            if path.suffix == SUFFIX:
                raise
            known = ", ".join((".stim", ".dem", *SUFFIXES))
            what = f"it is no saved decoder, and the name does not say how a code is laid out: {known}"
            raise FormatError(display_name(path), None, what) from problem
        refuse_idle(context, "a saved decoder", dict.fromkeys(_IN_CODES, ("codes",)))
        if self.p is not None:
            decoder.code = decoder.code.with_priors(self.p)
        if self.osd is not None:
            decoder.second = _second(self.osd)
        return decoder


@dataclass(frozen=True)
class LegOptions:
    """How the legs of a decoder are trained, one after another."""

    legs: Annotated[int, typer.Option(help="Settings in sequence, each trained on what the last leaves.")] = 1
    loss: Annotated[DecoderLossName, typer.Option(help="What to train for.")] = DecoderLossName.RESIDUAL
    noisier: Annotated[float, typer.Option(help="Train with flips so many times as likely.")] = 1.1
    hard: Annotated[float, typer.Option(help="The share of shots drawn among those left unexplained.")] = 0.0
    steps: Annotated[int, typer.Option(help="Steps of training, for each leg.")] = 300
    batch: Annotated[int, typer.Option(help="Shots of a step.")] = 128
    rate: Annotated[float, typer.Option(help="The first step size.")] = 0.02

    def check(self) -> None:
        """Raises where a number makes no sense."""
        if self.legs < 1:
            raise ValueError(f"--legs must be at least 1, not {self.legs}")
        if not self.noisier > 0:
            raise ValueError(f"--noisier must be above 0, not {self.noisier}")

    def checkpoints(self, first: Path | None) -> list[Path | None]:
        """A file for each leg, where there are any."""
        return [first] + [None if first is None else Path(f"{first}.{number}") for number in range(1, self.legs)]

    def of_fit(self) -> dict[str, Any]:
        """What :meth:`Decoder.fit` is told."""
        return {name: getattr(self, name) for name in ("steps", "batch", "rate", "hard")}


@dataclass(frozen=True)
class ShotFiles:
    """Shots from files: what was seen, and what happened."""

    syndromes: Annotated[Path | None, typer.Option(help="Syndromes from a file, with one of the next two.")] = None
    received: Annotated[
        Path | None, typer.Option(help="Instead: log-odds of received words (.npy), with --errors.")
    ] = None
    errors: Annotated[
        Path | None,
        typer.Option(help="The flips that happened, beside --syndromes; the words sent, beside --received."),
    ] = None
    flips: Annotated[Path | None, typer.Option(help="What happened to observables, beside --syndromes.")] = None

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """All of them."""
        return self.syndromes, self.received, self.errors, self.flips


@decode.command("train")
@grouped
def train(
    context: typer.Context,
    code: Annotated[Path, typer.Argument(metavar="CODE", help=_CODE)],
    setting: CodeOptions,
    *,
    decibels: _OutOf = None,
    training: LegOptions,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A file from which the same command goes on if it was stopped; legs add their number."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to save the decoder.", show_default=f"CODE with {SUFFIX}")
    ] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="For shots and first strengths.")] = 0,
) -> None:
    """Train message weights and memory for fewer failures."""
    with one_line_each():
        import numpy as np

        from loopwise.apps.decoder import Flips, Leg

        setting.check_rule(context)
        if decibels is not None:
            refuse_idle(context, "--decibels", {"p": _FLIPS, "noisier": _FLIPS})
        training.check()
        default = named_after(code)
        target = target_of(out, default, inputs=(code, setting.observables), checkpoint=checkpoint)
        places = training.checkpoints(checkpoint)
        for place in places:
            check_outputs({"--checkpoint": place}, (code, setting.observables, target))
        given = setting.code(code, decibels)
        random, sweeps = np.random.default_rng(seed), setting.sweeps or 20
        made = [
            Leg(given, sweeps, memory=random.uniform(-0.2, 0.6, given.bits) if k else None)
            for k in range(training.legs)
        ]
        decoder = setting.decoder(given, made)
        source: Any = (
            Flips(given, np.minimum(given.priors * training.noisier, 0.5))
            if decibels is None
            else _gaussian(given, decibels)
        )
        loss = _loss(training.loss)
        for number, place in enumerate(places):
            decoder.fit(source, loss, leg=number, checkpoint=place, seed=seed, **training.of_fit())
        decoder.save(target)
        history = decoder.history_
        if as_json:
            typer.echo(json.dumps({"model": str(target), "history": history.to_json()}).replace("NaN", "null"))
            return
        counted = "wrong bits" if loss.of_bits and given.observables is None else "failures"
        after = history.dev[history.best or 0]
        typer.echo(f"{given!r}: {counted} on held-out shots {history.dev[0]:.4g} before, {after:.4g} after")
        if not history.best:
            typer.echo("nothing was better than the start by more than chance: the start is kept")
        typer.echo(f"saved {target}")


@decode.command("run")
@grouped
def run(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help=_MODEL)],
    shots: Annotated[Path, typer.Argument(help="Syndromes (.b8, .01, .npy), or log-odds of 0 against 1 (.npy).")],
    out: Annotated[Path, typer.Option(help="Where corrections are written (.b8, .01, .npy).")],
    setting: CodeOptions,
    received: Annotated[
        bool, typer.Option("--received", help="SHOTS holds log-odds of received bits, not syndromes.")
    ] = False,
    predict: Annotated[bool, typer.Option("--predict", help="Write flips of observables, not of bits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a correction for each shot; how many are explained goes to standard output."""
    with one_line_each():
        from loopwise.formats.check_matrix import read_array
        from loopwise.formats.files import about_file
        from loopwise.formats.shots import read_bits, write_bits

        check_outputs({"--out": out}, (model, shots, setting.observables))
        if received:
            refuse_idle(context, "--received", {"p": ("syndromes",)})
        decoder = setting.read(model, 0.0 if received else None, context)
        if received:
            with about_file(shots):
                answer = decoder.receive(read_array(shots))
        else:
            answer = decoder.run(read_bits(shots, decoder.code.detector_count, "bits of a syndrome"))
        if predict and answer.flips is None:
            raise ValueError("--predict needs a code with observables; give their matrix as --observables")
        write_bits(out, answer.flips if predict and answer.flips is not None else answer.corrections)
        if as_json:
            done = {"shots": len(answer), "explained": int(answer.explained.sum()), "sweeps": int(answer.sweeps.sum())}
            typer.echo(json.dumps({**done, "second": answer.second}))
            return
        typer.echo(answer.status)


@decode.command("evaluate")
@grouped
def evaluate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help=_MODEL)],
    setting: CodeOptions,
    *,
    shots: Annotated[int | None, typer.Option(help="Draw so many.", min=1)] = None,
    files: ShotFiles,
    decibels: _OutOf = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write the CSV here instead of to standard output.")] = None,
    seed: Annotated[int, typer.Option(help="For the shots drawn: rows of other seeds add up.")] = 0,
) -> None:
    """Count failures: a row of CSV, which combine adds to others."""
    with one_line_each():
        from loopwise.apps.decoder import Flips
        from loopwise.formats.files import about_file, atomic_write
        from loopwise.formats.table import csv_line

        target = target_of(out, inputs=(model, *files.paths, setting.observables))
        syndromes, received = files.syndromes, files.received
        sources = {"--shots": shots, "--syndromes": syndromes, "--received": received}
        chosen = [name for name, value in sources.items() if value is not None]
        if len(chosen) != 1:
            raise ValueError(
                "give either --shots, to draw so many, or --syndromes with --errors or --flips, or --received with "
                "--errors"
            )
        users = {"errors": ("--syndromes", "--received"), "flips": ("--syndromes",), "decibels": ("--shots",)}
        refuse_idle(context, chosen[0], {**users, "p": ("--shots", "--syndromes")})
        if decibels is not None:
            refuse_idle(context, "--decibels", {"p": _FLIPS})
        decoder = setting.read(model, 0.0 if received is not None else decibels, context)
        if syndromes is not None:
            counts = decoder.evaluate(_shots(decoder, syndromes, files.errors, files.flips))
        elif received is not None:
            words = _words(decoder, received, files.errors)
            with about_file(received):
                counts = decoder.evaluate(words)
        else:
            source: Any = Flips(decoder.code) if decibels is None else _gaussian(decoder.code, decibels)
            counts = decoder.evaluate(source, shots, seed=seed)
        settings = {"model": model.name, "p": setting.p, "decibels": decibels, "decoder": repr(decoder)}
        settings |= {"checksum": decoder.checksum, "syndromes": None if syndromes is None else syndromes.name}
        if received is not None:
            settings["received"] = received.name
        if as_json:
            low, high = counts.interval
            typer.echo(
                json.dumps({**_row(counts), "rate": counts.rate, "low": low, "high": high, "settings": settings})
            )
            return
        with atomic_write(target) as stream:
            stream.write(csv_line(HEADER))
            stream.write(csv_line([*_row(counts).values(), json.dumps(settings, sort_keys=True)]))
        if out is not None:
            typer.echo(repr(counts))


@decode.command("combine")
def combine(
    files: Annotated[list[Path], typer.Argument(help="CSV files that evaluate wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Accepted for all commands; nothing is drawn.")] = 0,
) -> None:
    """Add up the counts of rows with the same settings."""
    with one_line_each():
        from loopwise.formats.files import atomic_write
        from loopwise.formats.table import csv_line

        target = target_of(out, inputs=files)
        found = _combined(files)
        if as_json:
            rows = [{**_row(counts), "settings": json.loads(settings)} for settings, counts in found.items()]
            typer.echo(json.dumps(rows))
            return
        with atomic_write(target) as stream:
            stream.write(csv_line(HEADER))
            for settings, counts in found.items():
                stream.write(csv_line([*_row(counts).values(), settings]))


def _combined(files: list[Path]) -> dict[str, Counts]:
    import csv
    import io

    from loopwise.apps.decoder import Counts
    from loopwise.formats.errors import FormatError
    from loopwise.formats.files import read_text

    found: dict[str, Counts] = {}
    seen: dict[tuple[str, ...], Path] = {}
    for file in files:
        reader = csv.reader(io.StringIO(read_text(file)))
        if tuple(next(reader, ())) != HEADER:
            raise FormatError(str(file), 1, f"the file does not begin with the columns {','.join(HEADER)}")
        for row in reader:
            try:
                *whole, seconds, settings = row
                json.loads(settings)
                shots, errors, unexplained, bits, sweeps = map(int, whole)
                mine = Counts(shots, errors, unexplained, bits, sweeps, float(seconds))
            except (ValueError, TypeError):
                raise FormatError(str(file), reader.line_num, "the row is none that evaluate wrote") from None
            if tuple(row) in seen:  # seconds are never the same twice
                raise FormatError(
                    str(file), reader.line_num, f"the row stands in {seen[tuple(row)]}, too; count its shots once"
                )
            seen[tuple(row)] = file
            found[settings] = found[settings] + mine if settings in found else mine
    return found


def _row(counts: Counts) -> dict[str, Any]:
    return {name: getattr(counts, name) for name in HEADER[:-1]}


def _is(path: Path, *suffixes: str) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(suffixes)


def _shots(decoder: Decoder, syndromes: Path, errors: Path | None, flips: Path | None) -> Shots:
    from loopwise.apps.decoder import Shots
    from loopwise.formats.shots import read_bits

    code = decoder.code
    if errors is None and flips is None:
        raise ValueError("--syndromes alone says nothing of failures; give --errors or --flips")
    seen = read_bits(syndromes, code.detector_count, "bits of a syndrome")
    happened = None if errors is None else read_bits(errors, code.bits, "bits")
    count = 0 if code.observables is None else code.observables.shape[0]
    if flips is not None and not count:
        raise ValueError("--flips needs a code with observables")
    changed = None if flips is None else read_bits(flips, count, "observables")
    for path, other in ((errors, happened), (flips, changed)):
        if other is not None:
            _same_rows(path, len(other), syndromes, len(seen))
    if changed is None and happened is not None and count:
        changed = code.flips(happened)
    return Shots(seen, happened, changed)


def _words(decoder: Decoder, received: Path, sent: Path | None) -> Shots:
    """What a channel made of words: a decoder that finds them has no check broken."""
    import numpy as np

    from loopwise.apps.decoder import Shots
    from loopwise.formats.check_matrix import read_array
    from loopwise.formats.files import about_file
    from loopwise.formats.shots import read_bits

    code = decoder.code
    if sent is None:
        raise ValueError("--received alone says nothing of failures; give --errors, the words that were sent")
    odds, words = read_array(received), read_bits(sent, code.bits, "bits")
    _same_rows(sent, len(words), received, odds.shape[0] if odds.ndim else 1)
    wrong = np.flatnonzero(code.checks.syndromes(words).any(1))
    with about_file(sent):
        if len(wrong):
            raise ValueError(f"row {wrong[0]} is no codeword: a sum that a check wants even is odd")
    zeros = np.zeros((len(words), code.detector_count), np.uint8)
    return Shots(zeros, words, None if code.observables is None else code.flips(words), odds)


def _same_rows(path: Path | None, rows: int, other: Path, wanted: int) -> None:
    if rows != wanted:
        raise ValueError(f"{path} has {rows} rows, {other} has {wanted}")


def _gaussian(code: Code, decibels: float) -> Any:
    from loopwise.apps.decoder import Gaussian
    from loopwise.inference.families.second_stage import rank_of

    return Gaussian(code, decibels, 1 - rank_of(code.checks) / code.bits)


def _second(order: int | None) -> Any:
    from loopwise.apps.decoder import OSD

    return None if order is None else OSD(order)


def _loss(name: DecoderLossName) -> Any:
    from loopwise.apps.decoder import losses

    kinds = {
        DecoderLossName.RESIDUAL: losses.ResidualParity,
        DecoderLossName.OBSERVABLES: losses.ObservableFlips,
        DecoderLossName.BITS: losses.BitwiseCrossEntropy,
        DecoderLossName.BIT_ERRORS: losses.BitErrors,
        DecoderLossName.BLOCK: losses.BlockError,
    }
    return kinds[name]()
