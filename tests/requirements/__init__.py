"""Proof that every row of the requirements works, or says what it waits for."""
