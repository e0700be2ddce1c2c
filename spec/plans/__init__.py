"""What each kernel promises: roles, barriers, memory maps, MMAs, and where each stage can be observed."""
