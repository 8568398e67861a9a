"""The ``loopwise`` command: which commands there are, and how all of them end.

In: arguments. Out: an exit code, 0 or 2. Only Typer and Rich are imported here; commands import the rest
when they run, so that ``--help`` is instant.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, Any, cast

import typer

from loopwise import __version__
from loopwise.cli.card import card
from loopwise.cli.compare_gradients import compare_gradients
from loopwise.cli.coref import coref
from loopwise.cli.decode import decode
from loopwise.cli.dedupe import dedupe
from loopwise.cli.demo import demo
from loopwise.cli.denoise import denoise
from loopwise.cli.evaluate import evaluate
from loopwise.cli.fit import fit
from loopwise.cli.impute import impute
from loopwise.cli.infer import infer
from loopwise.cli.messages import FAILURE, complain, one_line_each, say
from loopwise.cli.multilabel import multilabel
from loopwise.cli.parser import parser
from loopwise.cli.predict import predict
from loopwise.cli.tagger import tagger
from loopwise.cli.warm import warm

# Typer brings its own Click or shares an installed one, depending on its version; this is the class of all
# usage errors either way.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)

INTERRUPTED = 130  # what shells report for Ctrl-C

app = typer.Typer(
    name="loopwise",
    help="Discrete graphical models: inference you can trust, and what it costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"loopwise {__version__}")
        raise typer.Exit()


class _Speaker(logging.Handler):
    """Lines of the log on standard error, as it is at the time: a progress bar puts them above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def _show_log(verbose: int) -> None:
    """Shows what the library logs: nothing, what it does (once), or every detail (twice)."""
    library = logging.getLogger("loopwise")
    for handler in [handler for handler in library.handlers if isinstance(handler, _Speaker)]:
        library.removeHandler(handler)
    library.setLevel((logging.NOTSET, logging.INFO, logging.DEBUG)[min(verbose, 2)])
    if verbose:
        speaker = _Speaker()
        speaker.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        library.addHandler(speaker)


def _set_limits(context: typer.Context, unpacked: str | None, pixels: int | None) -> None:
    """Limits on what files become, for the command that follows."""
    with one_line_each():
        from loopwise.formats.limits import limits, parse_size

        size = None if unpacked is None else parse_size(unpacked)
        context.with_resource(limits(unpacked=size, pixels=pixels))


@app.callback()
def _loopwise(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            metavar="",
            help="Say on standard error what is being done; twice: in detail. Before the command.",
        ),
    ] = 0,
    max_unpacked: Annotated[
        str | None,
        typer.Option(
            envvar="LOOPWISE_MAX_UNPACKED",
            metavar="SIZE",
            show_default="1G",
            show_envvar=False,
            help="Bytes that a .gz or .npz file may unpack to: 500M, 4G. Before the command.",
        ),
    ] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(
            envvar="LOOPWISE_MAX_PIXELS",
            min=1,
            show_default="100000000",
            show_envvar=False,
            help="Pixels that a picture may have. Before the command.",
        ),
    ] = None,
) -> None:
    _show_log(verbose)
    if max_unpacked is not None or max_pixels is not None:
        _set_limits(context, max_unpacked, max_pixels)


app.command("infer")(infer)
app.command("fit")(fit)
app.command("predict")(predict)
app.command("evaluate")(evaluate)
app.command("impute")(impute)
app.command("card")(card)
app.command("compare-gradients")(compare_gradients)
app.add_typer(parser, name="parser")
app.add_typer(tagger, name="tagger")
app.add_typer(multilabel, name="multilabel")
app.add_typer(denoise, name="denoise")
app.add_typer(coref, name="coref")
app.add_typer(decode, name="decode")
app.add_typer(dedupe, name="dedupe")
app.command("warm")(warm)
app.command("demo")(demo)
# Gone, but people ask for it; whatever stands behind it is taken, and the answer is the same.
_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


@app.command("reproduce", hidden=True, add_help_option=False, context_settings=_ANYTHING)
def reproduce() -> None:
    """Says where the published studies are: beside the package, in its repository."""
    with one_line_each():
        raise ValueError(
            "the published studies are no part of the installed package any more; in a checkout of the repository, run "
            "python -m studies PAPER (or make reproduce STUDY=PAPER)"
        )


def _usage_problem(problem: Any) -> int:
    """One sentence, and where the help on it is. A group of commands without one has shown its help by now."""
    message = problem.format_message().replace("Value error, ", "")
    if type(problem).__name__ == "NoArgsIsHelpError":
        return 0
    command = "loopwise" if problem.ctx is None else problem.ctx.command_path
    complain(f"{message} (see {command} --help)")
    return FAILURE


def run() -> None:
    """The entry point: every expected failure is one sentence on standard error and exit code 2."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        code = app(standalone_mode=False)
    except _UsageError as problem:
        code = _usage_problem(problem)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: nothing to say, and nothing for Python to flush at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
