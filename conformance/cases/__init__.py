"""Cases: what a command's argument names, and the problems that Hypothesis draws and shrinks."""
