"""`python -m duly` is `duly`."""

from duly.cli import main

if __name__ == "__main__":
    main()
