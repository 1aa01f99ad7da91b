"""Proof that every rule can fail: mutants of the reference, through the real battery."""
