"""Whether two PTX entries with the same control flow do the same, proved by an SMT solver."""
