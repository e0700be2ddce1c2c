"""Where each element of a tile lies, as a table and as a picture."""
