"""Commands of whoever runs it: what is there, what is wrong with it, and how to mend it."""

from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Dsn, Json


def status(as_json: Json = False, bootstrap_servers: Bootstrap = None, store: Dsn = None, data: Data = None) -> None:
    """What runs, lag per partition, freshness of the tables, sick sources, last errors. Exit status 1 when something
    does not answer or has stopped.

    "ingest here" is the one process behind this host's metrics port (metrics.ingest_port), "ingest everywhere" the
    group as the broker knows it. state: ok; slow: one step has waited for the store for over two seconds, nothing
    failed yet; failing: inserts fail and are tried again, nothing is lost. Last errors are those of the `up` that runs,
    or that ran on the folder that --data names.
    """
    from warpmeter.cli import status as reporting

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    common.refuse_elsewhere(settings)
    found = reporting.report(settings, settings.engine.data, named=data is not None)
    reporting.show(found, as_json)
    raise typer.Exit(int(bool(found.problems) or any(part.state != "running" for part in found.parts)))


def check(
    since: Annotated[
        str | None,
        typer.Option(
            help="Look at what landed since a time (2026-01-31T12:00Z) or so long ago (24h).", show_default="all"
        ),
    ] = None,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Hold the tables against the topics: is every message stored once, in raw tables and rollups?

    Offsets that no span holds or that two hold, spans declared and not stored, what retention took, rows by day against
    the book of spans and the rollups. It changes nothing and may run beside everything. Exit status 1 when something
    does not add up, with what to do, or could not be compared.
    """
    from warpmeter.cli import checking

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    common.refuse_elsewhere(settings)
    found = checking.run(settings, common.moment(since) if since else 0.0)
    checking.show(found, as_json)
    raise typer.Exit(int(bool(found.findings or found.skipped)))


def doctor(
    pid: Annotated[
        int | None, typer.Option("--pid", help="Only this: what makes that process a job, and can it be captured?")
    ] = None,
    rights: Annotated[
        list[str] | None,
        typer.Option(
            help="What matters to it, and has this login its rights on Kafka? Repeatable.", metavar="COMPONENT"
        ),
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            "--for", help="agent, ingest, scheduler, web, kafka or store: what matters to it.", metavar="PART"
        ),
    ] = "",
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Check this host, the bus and the store; each finding says what to do. Exit status 1 when something failed.

    With --for ingest, on its host and with its settings: only what ingest needs, and its login's rights on Kafka.

    With --rights agent: the same of any component that `warpmeter acls` knows; what its login may not read, and need
    not, is not asked.

    With --pid: what the agent sees of one process: its ancestors as completed, the process tree id that they make, the
    expression and the part that it matched, the schedulers' variables in its environment (no others are read), the job;
    and whether it, or what runs below it, can be captured, or why not. Exit status 1 when it is no job.
    """
    from warpmeter.acls import MEANINGS
    from warpmeter.cli.doctor import PARTS, examine
    from warpmeter.cli.doctor import rights as rights_of

    if part and part not in PARTS:
        common.fail(f"there is no part {part!r}; they are: {', '.join(PARTS)}", 2)
    if unknown := [each for each in rights or () if each not in MEANINGS]:
        common.fail(f"there is no component {unknown[0]!r}; they are: {', '.join(MEANINGS)}", 2)
    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    if pid is not None:
        from warpmeter.cli import explaining

        raise typer.Exit(explaining.run(settings.agent, common.socket_folder(settings), pid, as_json))
    held = list(dict.fromkeys([*([part] if part else []), *(rights or ())]))
    findings = [*examine(settings, *held), *(rights_of(settings, each) for each in MEANINGS if each in held)]
    if as_json:
        common.print_json(findings)
    else:
        rows = [(each.check, common.coloured(each.verdict), each.seen, each.remedy) for each in findings]
        common.print_table("", ("check", "verdict", "seen", "what to do"), rows)
    raise typer.Exit(int(any(each.verdict == "failed" for each in findings)))


def topics(
    create: Annotated[bool, typer.Option("--create", help="Create what is missing and mend what differs.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Check the topics and their configuration, or create them. Exit status 1 when something differs, or a copy of a
    topic is not in sync with the others: then no other broker may be stopped."""
    from warpmeter import topics as kafka_topics

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(kafka_topics.TopicsError):
        work = kafka_topics.ensure if create else kafka_topics.check
        differences = work(settings.kafka)
        wanted = kafka_topics.plan(settings.kafka)
        copies = kafka_topics.copies(settings.kafka)
    said = [kafka_topics.done(each) if create else str(each) for each in differences]
    if as_json:
        common.print_json({"topics": wanted, "differences": said, "copies": {**vars(copies), "risky": copies.risky}})
    else:
        parts = [each.partition(": ") for each in said]
        rows = [(t.name, t.partitions, "; ".join(what for name, _, what in parts if name == t.name)) for t in wanted]
        common.print_table("", ("topic", "partitions", "done" if create else "differs"), rows)
        if str(copies):
            warns = copies.risky or copies.behind
            common.err.print(f"[yellow]![/] {copies}" if warns else str(copies), highlight=False, soft_wrap=True)
    raise typer.Exit(int(bool(differences or copies.behind) and not create))


def acls(
    principal: Annotated[
        list[str] | None,
        typer.Option(help="COMPONENT=TYPE:NAME, who that component is to the broker; repeatable.", metavar="C=P"),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Grant what lacks.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print calls of kafka-acls.sh, and ask no broker.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Which rights on Kafka's topics and groups each component needs; whether its principal has them.

    Without --principal: the table. With it: what lacks on the broker, exit status 1 where something does; --create
    grants it, and looks again: what a rule denies still lacks. To look takes Describe on the cluster, to grant takes
    Alter, or a super user.

    warpmeter acls --principal agent=User:agent --principal ingest=User:ingest --create
    """
    from warpmeter.authorizer import AclsError
    from warpmeter.cli import acling

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(AclsError):
        named = acling.principals(principal or (), settings)
        if not named and (create or show):
            raise AclsError("say who: --principal agent=User:agent, one for each component")
        if not named:
            return acling.show(settings, as_json)
        if show:
            return acling.commands(settings, named)
        raise typer.Exit(int(not acling.hold(settings, named, create, as_json)))


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 when something is to be done.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print the SQL.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Bring the store's tables, rollups and views to this version. Safe to run again; refuses to run twice at once."""
    from warpmeter.cli import migrating
    from warpmeter.consumers.ledger import LedgerError
    from warpmeter.migrate import MigrationError
    from warpmeter.store import ClickHouseError

    asked = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    settings = common.writable(asked, data)
    with explained(MigrationError, ClickHouseError, LedgerError):
        if check or dry_run:
            steps = migrating.show(settings, dry_run, as_json)
            raise typer.Exit(int(check and bool(steps)))
        migrating.run(settings, as_json)


def replay(
    topic: Annotated[
        list[str], typer.Option("--topic", help="Topic; repeatable.", autocompletion=complete.topic_names)
    ],
    since: Annotated[str, typer.Option("--from", help="Start: 2h, or 2026-01-31T12:00 (UTC).")],
    until: Annotated[str, typer.Option("--to", help="End, not included; as the start.")] = "now",
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Also when the topic no longer holds all rows of the tables.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; read the topic and say what would change.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Land whole hours of a topic again from what Kafka holds: each row once, in the raw table and every rollup.

    For rows that were deleted, stored twice or left out. Stop ingest first. All rows are read and held against the
    tables before any is deleted; killed at any point, the same command brings it to its end.
    """
    from confluent_kafka import KafkaException

    from warpmeter.cli import replaying
    from warpmeter.consumers.replay.errors import ReplayError
    from warpmeter.store import ClickHouseError
    from warpmeter.tail import TailError

    wish = replaying.Wish(topic, replaying.hours(since, until), allow_loss, dry_run, yes, as_json)
    asked = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    common.refuse_elsewhere(asked)
    settings = common.writable(asked, data)
    replaying.refuse_within_up(settings, data or settings.engine.data, dry_run)
    with explained(ReplayError, ClickHouseError, KafkaException, TailError):
        done = replaying.run(settings, wish)
    raise typer.Exit(int(not done))


def config(as_json: Json = False) -> None:
    """Show the settings in force, secrets masked, or say what is wrong with them."""
    from warpmeter import config as configuration

    shown = configuration.shown(common.settings())
    if as_json:
        common.print_json(shown)
        return
    rows = [(f"{table}.{key}", value) for table, keys in shown.items() for key, value in keys.items()]
    common.print_table("", ("setting", "value"), rows)
