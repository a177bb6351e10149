"""Entry point of `python -m kifu.cli`."""

from kifu.cli import main

if __name__ == "__main__":
    main()
