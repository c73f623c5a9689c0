-- What stands out in a capture, and what to do about it? In words, what concerns most time first; on how many of its ranks.
-- What stands out between its ranks has no worst rank: it is of the load that most of them came with.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all, and what is between them, where it is empty
SELECT id, text, advice, value, unit, cost_seconds, worst_rank, ranks
FROM
(
    SELECT
        found.id AS id,
        argMax(found.text, found.cost_ns) AS text,
        argMax(advice[place], found.cost_ns) AS advice,
        argMax(found.value, found.cost_ns) AS value,
        argMax(found.unit, found.cost_ns) AS unit,
        max(found.cost_ns) / 1e9 AS cost_seconds,
        argMax(toNullable(rank), found.cost_ns) AS worst_rank,
        count() AS ranks
    FROM trace_ranks
    ARRAY JOIN findings AS found, arrayEnumerate(findings) AS place
    WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
    GROUP BY id

    UNION ALL

    SELECT
        each.1.id AS id, each.1.text AS text, each.2 AS advice, each.1.value AS value, each.1.unit AS unit,
        each.1.cost_ns / 1e9 AS cost_seconds, NULL AS worst_rank, ranks
    FROM
    (
        SELECT count() AS ranks, any(arrayZip(job_findings, job_advice)) AS together
        FROM trace_ranks
        WHERE capture_id = {capture_id:String} AND {process:String} = ''
        GROUP BY load
        ORDER BY ranks DESC, load DESC
        LIMIT 1
    )
    ARRAY JOIN together AS each
)
ORDER BY cost_seconds DESC, id, text
