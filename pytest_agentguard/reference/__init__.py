"""A small, complete, honest agent in readable parts, written to be copied; the rules are proven against it.

Start with ``loop.py`` (the agent), then ``conversation.py`` (what it decides) and ``intake.py`` (how it reads
a response).
"""
