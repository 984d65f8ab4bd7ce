"""`python -m strata`: the same as the `strata` command."""

from strata.cli import main

if __name__ == "__main__":
    main()
