"""What is walked over: scores of worlds by features, and their compiled arrays."""
