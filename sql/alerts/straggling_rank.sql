-- One GPU of a job, whose others do much the same, is far less active or runs at a far lower clock: all ranks wait for it, or it waits for data.
-- severity: warning
-- for: 240
-- keep: 300
-- every: 120
-- unit: ratio 0-1
-- summary: GPU {gpu} of host {host} runs at {value} of what the other GPUs of job {job_id} do ({what})
-- do: Look for heat, XIDs or memory errors of that GPU, and at its host's CPU and network; `warpmeter capture {job_id}` names the rank and what it waits for.
-- @behind 0.6  share of the median of the job that is too little
-- @minutes 10  the window
SELECT
    job_id, host, gpu, uuid,
    round(least(of_sm, of_clock), 3) AS value,
    value <= {behind:Float64} AS starts,
    if(of_clock < of_sm, 'clock', 'SM activity') AS what
FROM
(
    SELECT
        job_id, host, gpu, uuid,
        count() OVER job AS gpus,
        quantileExact(0.5)(ifNull(sm, 0)) OVER job AS job_sm,
        quantileExact(0.25)(ifNull(sm, 0)) OVER job >= 0.75 * quantileExact(0.75)(ifNull(sm, 0)) OVER job AS even,
        quantileExact(0.5)(ifNull(clock, 0)) OVER job AS job_clock,
        if(job_sm >= 0.1, ifNull(sm / job_sm, 1), 1) AS of_sm,
        if(job_sm >= 0.1 AND job_clock > 0, ifNull(clock / job_clock, 1), 1) AS of_clock
    FROM
    (
        SELECT held.job_id AS job_id, held.host AS host, held.gpu AS gpu, held.uuid AS uuid, used.sm AS sm, used.clock AS clock
        FROM
        (
            SELECT host, gpu, uuid, argMaxMerge(latest).job_ids AS jobs, arrayElement(jobs, 1) AS job_id, max(gpu_last.last_at) AS seen_at
            FROM gpu_last
            GROUP BY host, gpu, uuid
            HAVING length(jobs) = 1 AND seen_at > {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE
        ) AS held
        INNER JOIN
        (
            SELECT
                host, gpu, uuid,
                sum(w.sm_active_permille_sum) / nullIf(sum(w.sm_active_permille_count), 0) / 1000 AS sm,
                sum(w.sm_clock_megahertz_sum) / nullIf(sum(w.sm_clock_megahertz_count), 0) AS clock
            FROM gpu_heatmap_1m AS w
            WHERE w.window > {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE AND w.window <= {now:DateTime64(3, 'UTC')}
            GROUP BY host, gpu, uuid
        ) AS used ON used.host = held.host AND used.gpu = held.gpu AND used.uuid = held.uuid
        WHERE held.job_id IN (
            SELECT job_id FROM job_trees AS t
            GROUP BY job_id
            HAVING max(t.last_at) > {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE
                AND min(t.started_at) < {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} + 2 MINUTE
        )
    )
    WINDOW job AS (PARTITION BY job_id)
)
WHERE gpus >= 4 AND even AND value <= {behind:Float64} + 0.1
ORDER BY job_id, host, gpu, uuid
