"""Witnesses."""
