"""The launch file: a stranger's kernel launches as data, checked against their PTX, run and judged."""
