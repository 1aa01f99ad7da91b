"""Rules about where requests go, and how much of an answer is taken."""
