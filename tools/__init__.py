"""Development aids: oracles, cross-checks, generators of pages, records for a card."""
