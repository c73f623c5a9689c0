"""A condition on jobs asks what jobs are like, and nothing else of the store."""

import pytest

from warpmeter.captures.conditions import objection
from warpmeter.captures.wishes import Request
from warpmeter.captures.wishes import objection as refused


@pytest.mark.parametrize(
    "where",
    [
        "user = 'ann'", "1 -- all", "user IN ('ann', 'o''neil') AND gpus >= 8", "jobs.user = 'ann'", "`user` = 'a\\'b'",
        "labels['team'] = 'vision' OR account ILIKE '%nlp%'", "started_at < now() - INTERVAL 1 HOUR",
        "arrayExists(h -> startsWith(h, 'gpu-'), hosts)", "has(hosts, 'gpu-0001') AND NOT state = 'lost'",
        "duration_s > 1.5e3 AND (name LIKE 'train%' OR world_size % 8 = 0)", "ended_at IS NULL", "name NOT IN ['a']",
        "CASE WHEN gpus > 1 THEN 1 ELSE 0 END", "lower(name) = 'tränen'", "startsWith(scheduler, 'slurm')",
    ],
)  # fmt: skip
def test_what_jobs_are_like_may_be_asked(where: str) -> None:
    assert objection(where) == ""


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("ignore(toUInt64(concat('SECRET ', getServerSetting('path')))) OR 1", "ignore"),
        ("getSetting('readonly') = 1", "getSetting"), ("sleep(3)", "sleep"), ("currentUser() = 'x'", "currentUser"),
        ("job_id IN (SELECT job_id FROM gpus)", "SELECT"), ("(SELECT 1)", "SELECT"), ("name IN schedules", "schedules"),
        ("name IN hosts", "hosts"), ("name IN (hosts)", "hosts"), ("name IN system.one", "system"),
        ("arrayExists(gpus_of -> 1, hosts) OR name IN gpus_of", "gpus_of"), ("nonsense = 1", "nonsense"),
        ("dictGet('d', 'a', 1)", "dictGet"), ("url('http://x')", "url"), ("1 SETTINGS readonly = 0", "SETTINGS"),
        ("`system`.one", "system"), ("user = system.one", "system"), ("count() > 1", "count"), ("jobs", "jobs"),
    ],
)  # fmt: skip
def test_what_else_the_store_knows_may_not(where: str, named: str) -> None:
    assert named in objection(where)


@pytest.mark.parametrize(
    "where",
    [
        "1) OR (1", "1)) OR (SELECT 1", "(1", "[1)", "", " -- nothing", "1; DROP TABLE x", "user = 'ann",
        "1 /* ' */ OR sleep(3) /* ' */", "1 # ' \n OR sleep(3) --'", "$$ ' $$", "’1’", "user = \x00", "'\x00'", "@@x",
        "0x1F", "{job:String}",
    ],
)  # fmt: skip
def test_what_cannot_be_read_with_certainty_is_refused(where: str) -> None:
    assert objection(where)


def test_a_request_with_such_a_condition_cannot_be_carried_out() -> None:
    assert refused(Request(where="user = 'ann'", duration_ms=500)) == ""
    assert "getMacro" in refused(Request(where="getMacro('x') = ''", duration_ms=500))
