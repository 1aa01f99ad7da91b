"""Stopping: timeouts, deadlines and cancels end what they say, and nothing else."""
