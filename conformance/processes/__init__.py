"""Work in separate processes, which may crash, hang or be killed without harm to the caller."""
