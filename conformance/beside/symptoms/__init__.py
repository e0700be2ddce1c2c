"""Symptoms in words: which stages can be wrong, which bugs of the corpus fit, and what to dump next."""
