"""The release gate: all checks of a kernel as one verdict, with its evidence."""
