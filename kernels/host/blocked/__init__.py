"""Dense attention backward in blocks, in torch: every stage of it can be seen."""
