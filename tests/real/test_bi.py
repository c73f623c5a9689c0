"""docs/bi: every SQL of the examples is run on the real engine, its macros and variables filled in, and answers right.

Planted: an hour, two hosts with two GPUs each; ada's job has those of gpu-01, at 80 %; bob's those of gpu-02, idle.
"""

import json
import re
from collections.abc import Iterator
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
    limits = grants.Limits()
    assert f"{limits.seconds} s (a session may ask for up to {grants.SECONDS_AT_MOST})" in page
    assert f"{limits.queries_per_hour:,} queries, {limits.seconds_per_hour:,} s of queries" in page
    linked = re.findall(r"\]\((bi/[^)]+)\)", page)
    assert [each for each in linked if not (BI.parent / each).exists()] == []
