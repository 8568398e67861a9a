"""The best assignment: max-product, dual bounds and local search."""
