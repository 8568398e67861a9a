"""Table 3 of the SampleRank paper: names in text."""
