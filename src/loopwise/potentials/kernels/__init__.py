"""Compiled sums of sparse features."""
