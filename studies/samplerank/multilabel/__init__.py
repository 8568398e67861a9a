"""Table 2 of the SampleRank paper: sets of labels."""
