"""`python -m mopt`."""

from mopt.cli import main

if __name__ == "__main__":
    main()
