"""The `warpmeter` command."""

import os
import sys


def main() -> None:
    """Entry point of the console script."""
    _open_what_is_closed()
    from warpmeter.cli import app

    try:
        app()
    except ModuleNotFoundError as error:
        if (error.name or "warpmeter").startswith("warpmeter"):
            raise
        sys.exit(f"warpmeter: this command needs {error.name}, which is not installed: pip install 'warpmeter[all]'")


def _open_what_is_closed() -> None:
    """A standard stream that was closed leads nowhere then: else the next file or socket would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
