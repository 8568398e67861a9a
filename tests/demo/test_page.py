"""The page of the demo."""

from __future__ import annotations

from loopwise.demo.page import demo_page
from loopwise.demo.summary import claims, headline, saving, sweeps_sentence
from oracles.demo_cases import made_up


def test_a_defeat_is_called_a_defeat() -> None:
    findings = made_up((0.15, 0.15), (0.2, 0.14))
    assert saving(findings, 5) == "-13.3 %"  # from 0.15 to 0.17
    assert "better on 1 of 2 models" in headline(findings)
    assert not any(claim.holds for claim in claims(findings))
    page = demo_page(findings)
    assert headline(findings) in page and sweeps_sentence(findings) in page and "-13.3 %" in page
