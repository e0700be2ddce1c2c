"""head128-columns: the whole backward of 128 heads in a pair of CTAs that share out the columns."""
