"""Hermes in chat programs: a core that knows no chat program, and one platform for each."""
