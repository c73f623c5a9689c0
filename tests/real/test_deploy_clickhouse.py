"""docs/deploy/clickhouse.md and deploy/clickhouse: SQL is parsed by the engine; tiers and backups are run on it."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.real.configured_child import Asked, answers
from warpmeter import grants, migrate
from warpmeter.settings import Store

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "deploy" / "clickhouse"
PAGE: Final = (ROOT / "docs" / "deploy" / "clickhouse.md").read_text()
STORE: Final = Store(storage_policy="tiered", cold_after_days=3)
CREATE: Final = migrate.render(migrate.migrations()[0], Store())[0]
INTO: Final = "INSERT INTO warpmeter.gpu_samples (host, ts, gpu, uuid, period_ms)"


def inside(name: str) -> str:
    """What a file has in its `<clickhouse>`; its paths below the test's folder."""
    text = (FILES / name).read_text()
    return re.sub(r"/var/lib/clickhouse-", "FOLDER/", text.partition("<clickhouse>")[2].partition("</clickhouse>")[0])


def sql() -> list[str]:
    found = "".join(re.findall(r"```sql\n(.*?)```", PAGE, re.S))
    return [each.strip() for each in found.split(";\n") if each.strip()]


def test_every_file_is_xml_and_the_cluster_has_what_the_page_asks_of_it() -> None:
    cluster, *_ = [ElementTree.parse(FILES / name) for name in ("cluster.xml", "storage.xml", "backups.xml")]
    shards = cluster.findall("./remote_servers/fleet/shard")
    assert [shard.findtext("internal_replication") for shard in shards] == ["true", "true"]
    assert [len(shard.findall("replica")) for shard in shards] == [2, 2]
    assert cluster.find("./remote_servers/fleet/secret") is not None
    assert {each.tag for each in cluster.findall("./macros/*")} == {"shard", "replica"}


def test_the_page_tells_the_rights_of_the_parts() -> None:
    for part in grants.PARTS:
        assert f"| {part} | {grants.told(part)} |" in PAGE


def test_sql_is_parsed_backups_restore_and_old_rows_move(tmp_path: Path) -> None:
    step = migrate.stale_ttl(STORE, "gpu_samples", " TTL toDateTime(ts) + toIntervalDay(14) SETTINGS", "default")
    assert step is not None
    assert len(step.statements) == 2
    backup, later = ("File('FOLDER/backups/1')", "File('FOLDER/backups/2')")
    days = "SELECT 'h', now() - 86400 * number, 0, 'u', 1000 FROM numbers(6)"
    where = (
        "SELECT disk_name, groupArray(dateDiff('day', toDate(max_time), today())) AS days FROM "
        "(SELECT * FROM system.parts WHERE table = 'gpu_samples' AND active ORDER BY max_time DESC) GROUP BY disk_name"
    )
    asked: list[Asked] = [
        *((f"EXPLAIN AST {each}", {}) for each in sql()),
        ("CREATE DATABASE warpmeter", {}),
        (CREATE, {}),
        *((each, {}) for each in step.statements),
        ("SELECT engine_full, storage_policy FROM system.tables WHERE name = 'gpu_samples'", {}),
        (f"{INTO} SETTINGS insert_deduplication_token = 'a' {days}", {}),
        ("OPTIMIZE TABLE warpmeter.gpu_samples", {}),
        (where, {}),
        (f"BACKUP DATABASE warpmeter TO {backup}", {}),
        (f"{INTO} SETTINGS insert_deduplication_token = 'b' SELECT 'h', now(), 1, 'u', 1000", {}),
        (f"BACKUP DATABASE warpmeter TO {later} SETTINGS base_backup = {backup}", {}),
        ("DROP DATABASE warpmeter SYNC", {}),
        (f"RESTORE DATABASE warpmeter FROM {later}", {}),
        ("SELECT count() AS restored FROM warpmeter.gpu_samples", {}),
        (f"{INTO} SETTINGS insert_deduplication_token = 'b' SELECT 'h', now(), 1, 'u', 1000", {}),
        ("SELECT count() AS again FROM warpmeter.gpu_samples", {}),
    ]  # fmt: skip
    asked = [(each.replace("FOLDER", str(tmp_path)), given) for each, given in asked]
    said = answers(tmp_path, inside("storage.xml") + inside("backups.xml"), asked)
    assert [(each, answer) for (each, _), answer in zip(asked, said, strict=True) if answer.startswith("error")] == []
    text = "\n".join(said)
    assert "toIntervalDay(3) TO VOLUME \\'cold\\'" in text
    assert "cold\t[3,4,5]" in text
    assert "default\t[0,1,2]" in text
    assert "restored\n7\n" in text
    assert "again\n8\n" in text, "a restored table knows no token: what the page's step 3 is for"
