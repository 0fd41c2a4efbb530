"""`python -m contextkit`: the command where its script is not on the path."""

from contextkit.cli.main import main

if __name__ == "__main__":  # processes that import this again, as those of the lint do, are no command
    main()
