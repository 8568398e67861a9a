"""Compiled loops over records: strings, blocks, linkage, scores of pairs."""
