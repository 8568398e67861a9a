"""Eisner & Stoyanov 2011: accuracy and run time in one objective."""
