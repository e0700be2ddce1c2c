"""Reports: results, traces and layouts, for a terminal or as pictures."""
