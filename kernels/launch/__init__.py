"""A launch as data: its model, its JSON form, and its builder."""
