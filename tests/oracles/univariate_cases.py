"""Every loss of one variable, with its formula."""

from __future__ import annotations

from loopwise import loss

LOSSES = [
    loss.MSE(),
    loss.L1(),
    loss.Hamming(weights=[1.0, 2.0, 0.5, 3.0]),
    loss.UnivariateLikelihood(),
    loss.SmoothError(5.0),
    loss.UnivariateQuadratic(),
    loss.F1(),
    loss.FBeta(beta=2.0, positive=(1, 2), reduction=loss.Pooled()),
    loss.Interpolated(loss.F1(), weight=0.3),
]
