"""Compiled Gibbs sampling, and its random numbers."""
