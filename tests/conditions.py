"""Conditions on jobs, and what one who means harm makes of them."""

from typing import Final

from hypothesis import strategies as st

TAKEN: Final = (
    "user = 'ann'", "1 -- all", "user IN ('ann', 'o''neil') AND gpus >= 8", "jobs.user = 'ann'", "`user` = 'a\\'b'",
    "labels['team'] = 'vision' OR account ILIKE '%nlp%'", "started_at < now() - INTERVAL 1 HOUR",
    "arrayExists(h -> startsWith(h, 'gpu-'), hosts)", "has(hosts, 'gpu-0001') AND NOT state = 'lost'",
    "duration_s > 1.5e3 AND (name LIKE 'train%' OR world_size % 8 = 0)", "ended_at IS NULL", "name NOT IN ['a']",
    "CASE WHEN gpus > 1 THEN 1 ELSE 0 END", "lower(name) = 'tränen'", "startsWith(scheduler, 'slurm')",
    "gpus * 2 - 1 >= -1.5e+3 / 4 AND now() > started_at + INTERVAL '2 days' * 2", "name = '{job:String} -- ; /* `x`'",
    "gpus BETWEEN 1 AND 2 -- 'a few', tränen\n OR \"name\" || 'x' != jobs . `user`", "name IN ('a') AND user = 'b'",
    "arrayCount(h -> arrayExists(g -> g = h, hosts_lost), hosts) > 1",
    "multiIf(gpus > 1, 'a', name = 'b', 'c', 'd') = 'a'",
    "CASE user WHEN 'ann' THEN 1 WHEN 'bob' THEN 2 END IS NOT NULL", "dateDiff(day, started_at, now()) > 2 DIV 1",
    "and(gpus > 1, NOT like(name, 'a%')) OR NOT NOT (day(started_at) = 1) AND mod(gpus, 2) = 1 mod 2",
    "name NOT LIKE 'x'", "started_at + INTERVAL gpus DAY < now() AND TRUE",
    "NOT(name IN ('a', 'b')) AND gpus NOT BETWEEN 1 AND 2",
)  # fmt: skip
"""Conditions that say what jobs are like."""
PARTS: Final = (
    "user", "name", "hosts", "jobs", "gpus", "h", "g", "secret", "system", "one", "schedules", "gpu_samples", "_table",
    "lower", "has", "tuple", "sleep", "getSetting", "currentUser", "dictGet", "url", "count", "COLUMNS", "numbers",
    "AND", "OR", "NOT", "IN", "GLOBAL", "LIKE", "BETWEEN", "NULL", "CASE", "WHEN", "THEN", "END", "INTERVAL", "DAY",
    "AS", "SELECT", "FROM", "UNION ALL", "WITH", "SETTINGS", "FORMAT", "INTO OUTFILE", "EXCEPT", "OVER", "EXISTS", "(",
    ")", "[", "]", "{", "}", ",", ".", ";", ":", "::", "?", "@@", "$", "$$", "$a$", "#", "# ", "#!", "--", "-- ", "/*",
    "*/", "->", "=", "==", "!=", "<>", "<=>", "<", ">", "+", "-", "*", "/", "%", "|", "||", "!", "^", "~", "&", "\\",
    "'", "''", "\\'", '"', "`", "``", "‘", "’", "“", "”", "\0", "\n", "\r", "\t", " ", "\v", "\u00a0", "\u2028",
    "\ufeff", "é", "−", "１", "ſ", "1", "1.5", "1e3", "1_000", "0x1F", "0b1", ".5", "1.", "1e", "inf", "'x'", "`user`",
    '"name"', "`secret`", "{x:String}", "{x:Identifier}", "x'41'", "(SELECT 1)", "() -> 1", "h -> h", "(secret)",
    "::String", "/**/", "/*/**/*/",
)  # fmt: skip
"""What is put into them: what nobody may ask for, and what makes one reader see a word where another sees none."""


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A condition with parts put into it, between its words and within them, and stretches cut out."""
    text = draw(st.sampled_from(TAKEN) | st.lists(st.sampled_from(PARTS), max_size=12).map(" ".join))
    for part in draw(st.lists(st.sampled_from(("", *PARTS, *TAKEN)), max_size=3)):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 0, 1, 3))))
        padding = draw(st.sampled_from(("", " ")))
        text = text[:start] + padding + part + padding + text[end:]
    return text


@st.composite
def reworded(draw: st.DrawFn) -> str:
    """A condition of words that all are known, in an order in which some may be something else."""
    words = draw(st.sampled_from(TAKEN)).split(" ")
    for parts in draw(st.lists(st.lists(st.sampled_from(sorted(_OWN)), max_size=3), max_size=2)):
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 3))] = parts
    return " ".join(words)


_OWN: Final = {word for each in TAKEN for word in each.split(" ")} | {
    "(",
    ")",
    "IN (",
    "LIKE (",
    "DAY",
    "END",
    "*",
    "->",
}
