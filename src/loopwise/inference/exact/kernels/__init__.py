"""Compiled products and sums of large tables."""
