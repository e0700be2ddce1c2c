"""Tools beside the judging: recorder, frontends, log explainers, timing, mutation, corpus, pictures."""
