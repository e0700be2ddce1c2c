"""Layouts of lines that both readings share, rewritten so that each line tells an event by itself."""
