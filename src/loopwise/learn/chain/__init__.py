"""Chains that are linear in sparse features: compiled objectives for likelihood, risk and online learning."""
