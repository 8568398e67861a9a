"""Measuring one way of doing a thing against another, on the user's own model. Above the stages."""
