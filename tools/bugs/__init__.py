"""The bug benchmark: bugs of the corpus as runnable cases, each in a wrong and a right form."""
