-- Which processes was the job made of? One row a process tree of it, with its ranks and what it used in all; `unsaid`: it
-- ended without a word, its host or agent went silent.
-- @job_id -  the job
-- @limit 2000  how many rows
SELECT
    p.host AS host,
    p.pid AS pid,
    p.ranks AS ranks,
    p.state AS state,
    p.unsaid AS unsaid,
    p.started_at AS started_at,
    p.ended_at AS ended_at,
    p.last_at AS last_seen_at,
    length(p.gpu_uuids) AS gpus,
    round(p.cpu_core_seconds / nullIf(p.known_seconds, 0), 6) AS cpu_cores,
    toUInt64(p.rss_mebibytes_max) * 1048576 AS rss_bytes,
    toUInt64(p.gpu_memory_mebibytes_max) * 1048576 AS gpu_memory_bytes,
    p.read_bytes AS read_bytes,
    p.written_bytes AS written_bytes
FROM job_processes AS p
WHERE p.job_id = {job_id:String}
ORDER BY empty(ranks), ranks, host, pid
LIMIT {limit:UInt32}
