-- job_processes: one row a process tree of a job: a job has one a host or more (ranks). `use` is its latest known use.
-- `state`: running; lost (nothing heard of it for a minute: its host or agent is gone, and may come back); ended: it said
-- so, or it has been lost for ten minutes. Then it ended without a word (`unsaid`), and `ended_at` is its last word.
CREATE OR REPLACE VIEW {{ name("job_processes") }} {{ on_cluster }} AS
SELECT
    job_id, host, pid,
    greatest(60, intDiv(6 * toInt64(period_ms_max), 1000)) AS quiet_s,
    ifNull(said_at >= last_at, 0) AS said,
    multiIf(
        said OR last_at < now64(3) - INTERVAL (10 * quiet_s) SECOND, 'ended',
        last_at < now64(3) - INTERVAL quiet_s SECOND, 'lost',
        'running'
    ) AS state,
    state = 'ended' AND NOT said AS unsaid,
    name, command, user, scheduler, tree_id, rank, world_size, labels, started_at,
    multiIf(said, said_at, unsaid, last_at, NULL) AS ended_at,
    first_at, last_at,
    use, rss_mebibytes_max, gpu_memory_mebibytes_max, gpu_uuids, cpu_core_seconds, known_seconds, read_bytes, written_bytes,
    ranks
FROM
(
    SELECT
        job_id, host, pid,
{# Not anyLast: parts that have not merged come in any order. #}
{% for column in ["name", "command", "user", "scheduler", "tree_id", "labels"] %}
        argMax(t.{{ column }}, (notEmpty(t.{{ column }}), t.last_at)) AS {{ column }},
{% endfor %}
{% for column in ["rank", "world_size", "last_at", "period_ms_max", "rss_mebibytes_max", "gpu_memory_mebibytes_max"] %}
        max(t.{{ column }}) AS {{ column }},
{% endfor %}
{% for column in ["started_at", "first_at"] %}
        min(t.{{ column }}) AS {{ column }},
{% endfor %}
{% for column in ["cpu_core_seconds", "known_seconds", "read_bytes", "written_bytes"] %}
        sum(t.{{ column }}) AS {{ column }},
{% endfor %}
        max(t.ended_at) AS said_at,
        groupUniqArrayArray(t.gpu_uuids_held) AS gpu_uuids,
        argMaxMerge(usage) AS use,
        arraySort(groupUniqArrayArray(t.ranks_held)) AS ranks
    FROM {{ name("job_trees") }} AS t
    GROUP BY job_id, host, pid
);
