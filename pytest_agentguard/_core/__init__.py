"""What is computed: events, ledger, replies, plans, verdicts. No I/O, no clock, no chance."""
