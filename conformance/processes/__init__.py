"""Work in processes of its own, which may crash, hang or be killed without harm to the caller."""
