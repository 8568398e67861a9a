"""Published experiments, run again: one file a paper, one schema of results for all."""
