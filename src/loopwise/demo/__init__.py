"""``loopwise demo``: what training for the loss does, in two minutes, on a page."""
