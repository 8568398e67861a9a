"""Messages as log-odds, for every structured factor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph.structured.base import from_log_odds, log_odds


def test_messages_of_log_odds_round_trip() -> None:
    odds = torch.tensor([-torch.inf, -800.0, -1.0, 0.0, 3.0, 900.0, torch.inf], dtype=torch.float64)
    messages = from_log_odds(odds)
    assert torch.equal(log_odds(messages)[0], odds)
    assert messages.reshape(-1, 2).exp().sum(-1).numpy() == pytest.approx(np.ones(7))
