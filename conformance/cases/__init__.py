"""Cases: the kernel or launch file that an argument names, and problems that Hypothesis draws and shrinks."""
