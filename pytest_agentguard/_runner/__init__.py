"""Runner."""
