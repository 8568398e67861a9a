"""Sets of binary labels, all pairs of which interact: weights, best sets, and online objectives."""
