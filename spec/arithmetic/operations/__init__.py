"""The operations of stages, by family; `spec.arithmetic` registers them."""
