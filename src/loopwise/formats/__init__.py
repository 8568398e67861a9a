"""File formats: text in, plain arrays out, and back."""
