"""`python -m tileproof`: the command line, also the entry point of the script `tileproof`."""

import _signal  # type: ignore[import-not-found] # signal itself imports other modules


def _interrupted(*_: object) -> None:
    """Ctrl-C before the command line can answer it: no traceback, and the exit code of an error."""
    import os

    os.write(2, b"error: interrupted while it started\n")
    os._exit(2)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else the caller ignores it
    _signal.signal(_signal.SIGINT, _interrupted)

from tileproof.conformance.cli.owner import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    main()
