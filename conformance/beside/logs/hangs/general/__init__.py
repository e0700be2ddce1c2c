"""A general reading of hang logs: the fields of a line by vocabulary and by structure, in any order."""
