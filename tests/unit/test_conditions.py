"""A condition on jobs asks what jobs are like, and nothing else of the store."""

import re
import string
from typing import Final

import pytest
from hypothesis import example, given, settings

from tests.conditions import TAKEN, spoilt
from warpmeter.captures.conditions import COLUMNS, FUNCTIONS, VIEW, WORDS, objection
from warpmeter.captures.wishes import Request
from warpmeter.captures.wishes import objection as refused


@pytest.mark.parametrize("where", TAKEN)
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


@pytest.mark.parametrize(
    "where",
    [
        "user = 'ann' /**/", "/* user */ 1", "1 /* /* */ ' */ OR sleep(3) -- '", "1 --\0", "1 #! x", "1 # x", "1 #x",
        "1 // x", "user = 'a\\", "user = 'a\\'", "`user = 1", "'`' = `user", "\"user`", "`us\\x65r` = 1",
        "`us``er` = 1", "`` = 1", "\"us\\\"er\" = 1", "$$user$$ = ''", "$a$x$a$ = 'x'", "user = $$ann", "user$ = 1",
        "$user = 1", "u$er = 1", "“user” = 'ann'", "user = ‘ann’", "\u00e9tat = 1", "us\u0435r = 1", "\uff55ser = 1",
        "user\u0301 = 1", "user =\u00a01", "\ufeffuser = 'ann'", "1\u20281", "gpus \u2212 1", "gpus = \u0661",
        "'\ud800' = user", "1 -- \udfff", "gpus = 1_000", "gpus = 0b1", "gpus = 0x1p3", "gpus = 1e", "gpus = 1e+",
        "gpus = 1.", "gpus = .5", "gpus = 1.5.5", "gpus = 1.e5", "gpus = 1e5x", "gpus = 1e+5x", "gpus = 1.5x",
        "gpus = 1e5.5", "gpus = 1x", "gpus = 1$$ ' $$", "([1)]", "(1]", "]", "user = 'a')", "('(' = user", "[1, (2]",
        "{x:String} = user", "{x:Identifier} = 1", "{user}", "?", "user AS u = 'ann'", "(user AS u) = u",
        "(user u) = 'ann'", "user name = 'ann'", "gpus 1", "1 gpus", "'a' 'b'", "lower(name) user", "[1] user",
        "NULL user", "CASE WHEN 1 THEN 2 END user", "user::String = 'a'", "CAST(user AS Int8)", "user = 'a'::String",
        "x -> x.y", "1 -> 1", "(h, g) -> h = g", "() -> 1", "and -> 1", "`h` -> 1", "arrayExists(h -> secret, hosts)",
        "arrayExists(secret -> 1, hosts) AND secret = 1",
        "arrayExists(h -> arrayExists(g -> 1, hosts) AND g = 1, hosts)", "if(h -> 1, h, 1)",
        "multiIf(gpus IN (h -> 1), 1, 1)", "(SELECT 1) = 1", "EXISTS (SELECT 1)", "user IN (WITH 1 AS x SELECT x)",
        "name IN null('x String')", "null('x')", "true()", "end(1)", "(user)('x')", "lower(name)('x')",
        "'lower'(name)", "[lower](name)", "user()", "hosts('x')", "jobs.lower(name) = ''", "jobs.jobs.user = ''",
        "jobs.*", "jobs", "jobs. = 1", "jobs.1", "jobs.secret = 1", "jobs.'user' = ''", "gpus.user = 1",
        "labels.team = 'x'", "tuple(gpus, 1).2", "hosts.size0", "*", "tuple(*) = 1", "has([1], *)", "COLUMNS('x')",
        "count(*)", "gpus ? 1 : 2", "gpus ^ 1", "~gpus", "gpus & 1", "gpus | 1", "!gpus", "\\", "user = 'a';", ";",
        "user = 'a'; SELECT 1", "user = \0", "'a\0' = user", "user\0", "gpus > @x", "gpus > @@max",
        "user SETTINGS x = 1", "1 FORMAT CSV", "1 UNION ALL SELECT 1", "1 INTO OUTFILE 'x'", "1 LIMIT 1",
        "1 GROUP BY user", "sum(gpus) OVER () > 1", "name IN (user)", "name IN ('a', user)", "name IN [hosts]",
        "name IN ((hosts))", "name IN (lower(hosts))", "name IN jobs.hosts", "in(name, hosts)", "notIn(name, hosts)",
        "AND", "gpus = and", "day", "day = 1", "name IN day", "name IN (hour)", "name IN (day, 1)",
        "tuple(day, 1) = 1", "not", "not = 1", "(not) = 1", "not in (1)", "case = 1", "CASE (gpus = 1)",
        "CASE (gpus) WHEN 1 THEN 2 END", "now() - INTERVAL (1) DAY", "NOT LIKE",
        "CASE INTERVAL user WHEN 1 THEN 2 END", "CASE user day WHEN 1 THEN 2 END", "INTERVAL 1", "NOT LIKE = user",
        "NOT IN (1)", "gpus = NOT BETWEEN", "interval = 1", "interval - 1", "when", "1 = end", "mod = 1", "is null",
        "gpus and and 1", "name IN `schedules`", "name IN (\"hosts\")", "name NOT IN hosts", "name in\nhosts",
        "x'41' = user", "DATE '2026-01-01' < started_at", "TRIM(BOTH 'a' FROM name) = ''", "position('a' IN name) > 1",
    ],
)  # fmt: skip
def test_nothing_that_could_be_something_else_is_taken(where: str) -> None:
    assert objection(where)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("'ä' = secret", "may not name 'secret' at its character 7:"),
        ("user = 'ä' AND 'x", "read from its character 16 on: \"'x\""),
        ("(1", "opens a bracket at its character 1 that"), ("1) AND (1", "closes a bracket at its character 2 that"),
        ("'ä' user", "lacks an operator before 'user' at its character 5:"),
        ("gpus = 'a\0'", "its character 10 on: \"\\x00'\""), ("gpus =é 1", "its character 7 on: 'é 1'"),
        ("1 /* */", "its character 2 on: ' /* */'"), (" -- x", "nothing in it"),
    ],
)  # fmt: skip
def test_the_place_of_what_is_wrong_is_said(where: str, said: str) -> None:
    assert said in objection(where)


KNOWN: Final = COLUMNS | FUNCTIONS | WORDS | {VIEW}
SIGNS: Final = set('()[]<>=!,.+*%-/|`"_' + string.ascii_letters + string.digits + string.whitespace)
_LEFT_OUT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|--.*")


@pytest.mark.long
@settings(max_examples=2000)
@given(spoilt())
@example("1 OR 'a'--'\nsecret")
def test_no_word_outside_the_lists_gets_through(where: str) -> None:
    """By another reading: strings and comments out from the left, and what is left looked at as it is."""
    if objection(where):
        return
    left = _LEFT_OUT.sub(" ' ", where)
    assert set(left) <= SIGNS | {"'"}
    words = re.findall(r"\d[\w.]*|[A-Za-z_]\w*", left)
    arguments = set(re.findall(r"(\w+)\s*(?:'\s*)*->", left))
    assert {each for each in words if not each[0].isdigit() and each.lower() not in KNOWN} <= arguments
    assert all(re.fullmatch(r"\d+(\.\d+)?(e\d*)?", each, re.IGNORECASE) for each in words if each[0].isdigit())


def test_a_request_with_such_a_condition_cannot_be_carried_out() -> None:
    assert refused(Request(where="user = 'ann'", duration_ms=500)) == ""
    assert "getMacro" in refused(Request(where="getMacro('x') = ''", duration_ms=500))
