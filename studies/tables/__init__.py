"""Tables with missing cells: ours beside what users have today, on 17 public tables."""
