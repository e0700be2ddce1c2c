"""Problems: what is generated, as cases that shrink, and the values that name their own origin."""
