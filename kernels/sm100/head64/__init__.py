"""head64: the whole backward of 64 heads in one CTA."""
