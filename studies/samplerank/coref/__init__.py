"""Table 1 of the SampleRank paper: coreference."""
