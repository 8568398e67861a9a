"""What all compiled loops share: how they are compiled, and what their cache goes by."""
