"""Dense attention backward in blocks, in torch; every stage can be observed."""
