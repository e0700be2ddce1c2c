"""Programs that run on a card beside the emulator and compare what both give."""
