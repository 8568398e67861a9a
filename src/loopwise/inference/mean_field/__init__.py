"""Mean field, its gradient and its reference engine."""
