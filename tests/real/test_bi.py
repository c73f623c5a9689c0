"""docs/bi: every SQL of the examples is run on the real engine, its macros and variables filled in, and answers right.

Planted: an hour, two hosts with two GPUs each; ada's job has those of gpu-01, at 80 %; bob's those of gpu-02, idle.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]
from jinja2 import Environment, StrictUndefined

from tests.tables import ask, land, row
from warpmeter import grants
from warpmeter.dictionary import meanings
from warpmeter.store import Client

pytestmark = pytest.mark.long

BI: Final = Path(__file__).parents[2] / "docs" / "bi"
NOON: Final = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
"""Of yesterday: minutes and what is there now are not kept for years."""
START: Final = NOON.timestamp()
DAY: Final = str(NOON.date())
MINUTES: Final = 60
JOBS: Final = {"gpu-01": ("4711", "train", "ada", 800), "gpu-02": ("4712", "notebook", "bob", 0)}


@pytest.fixture(scope="module")
def planted(shared_tables: Client) -> Client:
    """An hour of both hosts."""
    samples, events, hosts = [], [], []
    for host, (job, name, user, util) in JOBS.items():
        for minute in range(MINUTES):
            ts = START + 60 * minute
            hosts.append(row("host-samples", host=host, ts=ts, period_ms=60_000))
            samples += [
                row("gpu-samples", host=host, ts=ts, period_ms=60_000, gpu=gpu, uuid=f"{host}-{gpu}", model="H200",
                    job_ids=[job], gpu_util_permille=util, temperature_celsius=60 + gpu, power_deciwatts=3600)
                for gpu in (0, 1)
            ]  # fmt: skip
        events += [
            row("job-events", host=host, ts=ts, period_ms=10_000, job_id=job, event=event, name=name, user=user, pid=7,
                started_at=START)
            for event, ts in (("started", START), ("ended", START + 3_590))
        ]  # fmt: skip
    land(shared_tables, "gpu-samples", samples)
    land(shared_tables, "host-samples", hosts)
    land(shared_tables, "job-events", events)
    return shared_tables


# --- Grafana ------------------------------------------------------------------------------------------------------


def arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments of a call whose parenthesis opens at `at`, and where it ends."""
    depth, found, begin = 0, [], at + 1
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0 or (depth == 1 and text[place] == ","):
            found.append(text[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return found, place + 1
    raise AssertionError(f"no end: {text[at:]}")


FROM: Final = f"toDateTime({int(START)})"
TO: Final = f"toDateTime({int(START) + 3600})"
MACROS: Final[Mapping[str, Callable[..., str]]] = {
    "timeFilter": lambda column: f"{column} >= {FROM} AND {column} <= {TO}",
    "timeInterval": lambda column: f"toStartOfInterval(toDateTime({column}), INTERVAL 3600 second)",
}


def grafana(sql: str, chosen: Mapping[str, list[str]]) -> str:
    """As the plugin sends it: `chosen` values of variables, all where there are none."""
    while found := re.search(r"\$__conditionalAll(?=\()", sql):
        (condition, variable), end = arguments(sql, found.end())
        kept = condition if variable.removeprefix("$") in chosen else "1=1"
        sql = f"{sql[: found.start()]}{kept}{sql[end:]}"
    sql = re.sub(r"\$\{(\w+):singlequote\}", lambda use: ", ".join(f"'{value}'" for value in chosen[use[1]]), sql)
    sql = sql.replace("$__fromTime", FROM).replace("$__toTime", TO)
    while found := re.search(r"\$__(\w+)(?=\()", sql):
        given, end = arguments(sql, found.end())
        sql = f"{sql[: found.start()]}{MACROS[found[1]](*given)}{sql[end:]}"
    assert "$" not in sql, sql
    return sql


DASHBOARD: Final = json.loads((BI / "grafana" / "fleet.json").read_text())
VARIABLES: Final = {each["name"]: each["query"] for each in DASHBOARD["templating"]["list"]}
PANELS: Final = {each["title"]: each["targets"][0]["rawSql"] for each in DASHBOARD["panels"]}


def test_variables_of_grafana_list_what_was_there(planted: Client) -> None:
    def listed(name: str, **chosen: list[str]) -> list[tuple[Any, ...]]:
        return ask(planted, grafana(VARIABLES[name], chosen))

    assert set(VARIABLES) == {"host", "gpu", "user", "job"}
    assert listed("host") == [("gpu-01",), ("gpu-02",)]
    assert listed("gpu", host=["gpu-02"]) == [("gpu-02-0", "gpu-02 GPU 0"), ("gpu-02-1", "gpu-02 GPU 1")]
    assert len(listed("gpu")) == 4
    assert listed("user") == [("ada",), ("bob",)]
    assert listed("job", user=["ada"]) == [("4711", "train (4711)")]
    assert len(listed("job")) == 2


def test_panels_of_grafana_show_the_planted_hour(planted: Client) -> None:
    hour = NOON.replace(tzinfo=None)

    def shown(title: str, **chosen: list[str]) -> list[tuple[Any, ...]]:
        rows = ask(planted, grafana(PANELS[title], chosen))
        return [
            tuple(each.replace(tzinfo=None) if isinstance(each, datetime) else each for each in one) for one in rows
        ]

    assert shown("GPU utilisation of the fleet") == [(hour, pytest.approx(0.4), None)]
    assert shown("GPU utilisation by host", host=["gpu-01"]) == [(hour, "gpu-01", pytest.approx(0.8))]
    assert shown("GPU hours by user") == [(hour, "ada", 2.0), (hour, "bob", 2.0)]
    assert shown("GPU hours by user", job=["4712"], user=["bob"]) == [(hour, "bob", 2.0)]
    assert shown("Temperature of the chosen GPUs", gpu=["gpu-01-1"]) == [(hour, "gpu-01 GPU 1", 61)]
    looked = shown("GPUs that somebody must look at")
    assert [one[:4] for one in looked] == [(host, gpu, "H200", "gone") for host in JOBS for gpu in (0, 1)]
    for annotation in DASHBOARD["annotations"]["list"]:
        assert ask(planted, grafana(annotation["target"]["rawSql"], {})) == []


def test_grafana_knows_its_source() -> None:
    source = yaml.safe_load((BI / "grafana" / "provisioning" / "datasources" / "warpmeter.yaml").read_text())
    (found,) = source["datasources"]
    asked = [each["datasource"] for each in (*DASHBOARD["panels"], *DASHBOARD["templating"]["list"])]
    assert all(each == {"type": found["type"], "uid": found["uid"]} for each in asked)


# --- Superset -----------------------------------------------------------------------------------------------------


def datasets() -> Iterator[dict[str, Any]]:
    for file in sorted((BI / "superset" / "datasets" / "warpmeter").glob("*.yaml")):
        yield yaml.safe_load(file.read_text())


@pytest.mark.parametrize("dataset", [pytest.param(each, id=each["table_name"]) for each in datasets()])
def test_datasets_of_superset_have_their_columns_and_metrics(planted: Client, dataset: dict[str, Any]) -> None:
    database = yaml.safe_load((BI / "superset" / "databases" / "warpmeter.yaml").read_text())
    assert dataset["database_uuid"] == database["uuid"]
    source = f"({dataset['sql']})" if dataset["sql"] else dataset["table_name"]
    told = ask(planted, f"DESCRIBE (SELECT * FROM {source})")
    kinds = {name: kind for name, kind, *_ in told}
    for column in dataset["columns"]:
        assert column["type"] in kinds[column["column_name"]], column
        assert bool(column.get("is_dttm")) == column["type"].startswith("Date")
    assert dataset["main_dttm_col"] in kinds
    metrics = ", ".join(each["expression"] for each in dataset["metrics"])
    ((gpu_hours, *others),) = ask(planted, f"SELECT {metrics} FROM {source}")
    assert gpu_hours == 4.0
    assert all(value is not None for value in others)


# --- Metabase -----------------------------------------------------------------------------------------------------


def metabase(sql: str, **values: str) -> str:
    """As Metabase sends it: what stands in double brackets only with its variable."""

    def kept(part: re.Match[str]) -> str:
        return part[1] if all(name in values for name in re.findall(r"\{\{(\w+)\}\}", part[1])) else ""

    sql = re.sub(r"\[\[(.*?)\]\]", kept, sql)
    return re.sub(r"\{\{(\w+)\}\}", lambda use: f"'{values[use[1]]}'", sql)


def test_questions_of_metabase_are_answered(planted: Client) -> None:
    questions = {file.stem: file.read_text() for file in (BI / "metabase").glob("*.sql")}
    assert set(questions) == {"waste_by_user", "gpus_not_well", "utilisation_by_day"}
    waste = questions["waste_by_user"]
    assert ask(planted, metabase(waste, since=DAY)) == [("bob", 2.0, 2.0, 1.0), ("ada", 2.0, 0.0, 0.0)]
    assert ask(planted, metabase(waste, since=DAY, user="ada")) == [("ada", 2.0, 0.0, 0.0)]
    ((day, util, sm),) = ask(planted, metabase(questions["utilisation_by_day"], since=DAY))
    assert (str(day), util, sm) == (DAY, pytest.approx(0.4), None)
    assert len(ask(planted, metabase(questions["gpus_not_well"]))) == 4
    assert len(ask(planted, metabase(questions["gpus_not_well"], host="gpu-02"))) == 2
    assert json.loads((BI / "metabase" / "database.json").read_text())["engine"] == "clickhouse"


# --- dbt ----------------------------------------------------------------------------------------------------------


def model(name: str) -> str:
    """A model as dbt compiles it, those that it refers to within it."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)
    template = environment.from_string((BI / "dbt" / "models" / f"{name}.sql").read_text())
    return template.render(config=lambda **_: "", source=lambda _, table: table, ref=lambda other: f"({model(other)})")


def test_models_of_dbt_are_right(planted: Client) -> None:
    daily = ask(
        planted, f"SELECT job_id, gpu_hours, wasted_gpu_hours, energy_kwh FROM ({model('gpu_hours_daily')}) ORDER BY 1"
    )
    assert daily == [("4711", 2.0, 0.0, pytest.approx(0.72)), ("4712", 2.0, 2.0, pytest.approx(0.72))]
    waste = ask(planted, f"SELECT user, gpu_hours, wasted FROM ({model('waste_by_user')}) ORDER BY user")
    assert waste == [("ada", 2.0, 0.0), ("bob", 2.0, 1.0)]


def test_dbt_builds_on_what_stays() -> None:
    (source,) = yaml.safe_load((BI / "dbt" / "models" / "sources.yml").read_text())["sources"]
    assert [table["name"] for table in source["tables"] if not meanings.words()[table["name"]].stable] == []
    told = yaml.safe_load((BI / "dbt" / "models" / "models.yml").read_text())["models"]
    assert {each["name"] for each in told} == {file.stem for file in (BI / "dbt" / "models").glob("*.sql")}
    project = yaml.safe_load((BI / "dbt" / "dbt_project.yml").read_text())
    assert project["profile"] in yaml.safe_load((BI / "dbt" / "profiles.yml").read_text())


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_has_sql_that_the_engine_takes_and_the_rights_of_the_parts(planted: Client) -> None:
    page = BI.with_name("bi.md").read_text()
    blocks = "".join(re.findall(r"```sql\n(.*?)```", page, re.S))
    found = [each.strip() for each in blocks.split(";") if each.strip()]
    assert len(found) == 4
    assert all("Query" in ask(planted, f"EXPLAIN AST {each}")[0][0] for each in found)
    assert all(f"| {part} | {rights} |" in page for part, rights in grants.PARTS.items())
    limits = grants.Limits()
    assert f"{limits.seconds} s (a session may ask for up to {grants.SECONDS_AT_MOST})" in page
    assert f"{limits.queries_per_hour:,} queries, {limits.seconds_per_hour:,} s of queries" in page
    linked = re.findall(r"\]\((bi/[^)]+)\)", page)
    assert [each for each in linked if not (BI.parent / each).exists()] == []
