"""Compiled programs for whole families of models: chains, trees with pairs, parity checks."""
