"""Reports for a terminal, and the picture of a trace."""
