"""What learns from walks: rules, updates, learners, rounds of training."""
