"""Programs that run on a card and on the emulator and compare the results."""
