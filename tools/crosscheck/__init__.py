"""A second opinion: sentryward on one cluster, beside the emulator."""
