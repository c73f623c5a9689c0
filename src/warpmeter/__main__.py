"""The `warpmeter` command."""

import sys


def main() -> None:
    """Entry point of the console script."""
    from warpmeter.cli import app

    try:
        app()
    except ModuleNotFoundError as error:
        if (error.name or "warpmeter").startswith("warpmeter"):
            raise
        sys.exit(f"warpmeter: this command needs {error.name}, which is not installed: pip install 'warpmeter[all]'")


if __name__ == "__main__":
    main()
