"""Rules about attempts: how many are made, what counts, and which are never made again."""
