"""``loopwise reproduce``: where the published studies are now. They were a part of the package once."""

from __future__ import annotations

from loopwise.cli.messages import one_line_each


def reproduce() -> None:
    """Says where the published studies are: beside the package, in its repository."""
    with one_line_each():
        raise ValueError(
            "the published studies are no part of the installed package any more; in a checkout of the repository, run "
            "python -m studies PAPER (or make reproduce STUDY=PAPER)"
        )
