"""The `warpmeter` command."""


def main() -> None:
    """Entry point of the console script."""
    from warpmeter.cli import app

    app()


if __name__ == "__main__":
    main()
