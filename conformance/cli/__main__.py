"""`python -m tileproof.conformance.cli`: the command line of a checkout, as `python -m tileproof`."""

from tileproof.conformance.cli.owner import main

if __name__ == "__main__":
    main()
