"""`python -m tileproof`: the command line, also the entry point of the script `tileproof`."""

from tileproof.conformance.cli.owner import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
