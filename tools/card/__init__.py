"""The first hour on a card: every question that a card can answer, each in its own process, in one file."""
