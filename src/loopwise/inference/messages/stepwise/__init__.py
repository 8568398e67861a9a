"""The compiled engine where sweeps are taken step by step: any factors, weighted messages, rules to stop by."""
