"""Entry point of `python -m kifu`."""

from kifu.cli import main

if __name__ == "__main__":
    main()
