-- What stands out in a capture, and what to do about it? In words, what concerns most time first; on how many of its ranks.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
SELECT
    found.id AS id,
    argMax(found.text, found.cost_ns) AS text,
    argMax(advice[place], found.cost_ns) AS advice,
    argMax(found.value, found.cost_ns) AS value,
    argMax(found.unit, found.cost_ns) AS unit,
    max(found.cost_ns) / 1e9 AS cost_seconds,
    argMax(rank, found.cost_ns) AS worst_rank,
    count() AS ranks
FROM trace_ranks
ARRAY JOIN findings AS found, arrayEnumerate(findings) AS place
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
GROUP BY id
ORDER BY cost_seconds DESC, id
