"""The command. It alone may import every stage, each inside the function that needs it."""

import typer

app = typer.Typer(name="warpmeter", help=__doc__, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Fleet-wide GPU performance observability on Kafka and ClickHouse."""
