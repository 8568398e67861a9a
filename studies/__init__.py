"""Published experiments run again: ``python -m studies PAPER``. Beside the package, which knows nothing of them."""
