"""The float64 reference: a loop per problem, the evaluation of the spec's stages, the autograd oracles."""
