"""A launch as data: the one model of it, its JSON form, and what it is built with."""
