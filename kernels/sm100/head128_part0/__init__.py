"""head128-part0: P and delta of 128 heads with 2-CTA MMAs."""
