"""What `up` says once it runs: where things are, and what to type next."""

import shlex
import shutil
import sys

from warpmeter.cli.common import out
from warpmeter.config import masked_url
from warpmeter.up.run import Plan

FIRST_QUERY = "SELECT host, max(ts), count() FROM host_samples GROUP BY host"


def command_name() -> str:
    """How this user starts the command: `warpmeter` where it is on PATH, else the path it was started by."""
    if shutil.which("warpmeter"):
        return "warpmeter"
    return f"{sys.executable} -m warpmeter" if sys.argv[0].endswith("__main__.py") else sys.argv[0]


def print_welcome(asked: Plan) -> None:
    """Addresses, the data folder, the first query, and last where to look."""
    settings, option = asked.settings, ""
    if asked.folder.root != type(settings.engine)().data:
        option = f" --data {shlex.quote(str(asked.folder.root))}"
    store = masked_url(asked.read_dsn)
    lines = [
        ("SQL", f"{store} (ClickHouse's HTTP protocol{', read-only' if asked.embedded_store else ''})"),
        ("Kafka", f"{settings.kafka.bootstrap_servers} (topics {settings.kafka.topic_prefix}.*)"),
        ("data", str(asked.folder.root)),
    ]
    demo = " and a simulated fleet of 64 hosts" if asked.demo else ""
    out.print(f"[bold]warpmeter[/] measures {settings.agent.host}{demo}.", highlight=False)
    for name, value in lines:
        out.print(f"  {name:<6} {value}", highlight=False, soft_wrap=True, markup=False)
    out.print(f'  try    {command_name()} sql{option} "{FIRST_QUERY}"', highlight=False, soft_wrap=True, markup=False)
    out.print(f"         {command_name()} status{option}", highlight=False, soft_wrap=True, markup=False)
    if asked.demo:
        late = "until it is in, its hosts look silent and its jobs ended"
        out.print(f"The fleet's last hour comes first: {late}.", highlight=False, soft_wrap=True)
    out.print("Ctrl-C stops.", highlight=False)
    if asked.web:
        out.print(f"  look   {settings.web.address}", highlight=False, soft_wrap=True, markup=False)
