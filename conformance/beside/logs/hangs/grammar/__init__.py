"""Infers the grammar of a log from the log: which words name roles and barriers, which lines begin a wait."""
