"""The program: `python -m tandem train --env CartPole-v1` and all its other commands."""

import sys


def main() -> int:
    from tandem._load import core

    return int(core().run_program(["tandem", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
