"""What stands beside the judging: recorder, frontends, log explainers, timing, mutation, corpus, pictures."""
