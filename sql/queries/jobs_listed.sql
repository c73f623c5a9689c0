-- Which jobs ran in the window, and how well did they use their GPUs? The view jobs, a page of it, with GPU hours and means
-- of the window, from its hours.
-- @since -24h  start of the window
-- @until now  end of the window
-- @state ''  running, ended or lost alone
-- @user ''  of this user alone
-- @host ''  on this host alone
-- @gpus ''  that run and have a GPU that is busy, idle, failing or gone now
-- @search ''  in id, name, command, user or account
-- @sort started_at  a column to sort by
-- @descending 0  1: the highest first
-- @limit 100  how many rows
-- @offset 0  after so many
WITH
    used AS
    (
        SELECT
            w.job_id AS job_id,
            toNullable(sum(w.gpu_seconds) / 3600) AS gpu_hours,
            toNullable(sum(w.idle_seconds) / 3600) AS idle_gpu_hours,
            sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
            sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
            sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active,
            sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts
        FROM job_windows_1h AS w
        WHERE w.window >= toStartOfHour({since:DateTime('UTC')}) AND w.window < {until:DateTime('UTC')}
        GROUP BY w.job_id
    ),
    (
        SELECT (groupArray(page.job_id), any(page.total))
        FROM
        (
            SELECT jobs.job_id AS job_id, count() OVER () AS total
            FROM jobs
            LEFT JOIN used ON used.job_id = jobs.job_id
            WHERE last_seen_at >= {since:DateTime('UTC')} AND started_at < {until:DateTime('UTC')}
                AND jobs.job_id IN (SELECT t.job_id FROM job_trees AS t WHERE t.last_at >= {since:DateTime('UTC')})
                AND ({state:String} = '' OR state = {state:String})
                AND ({user:String} = '' OR user = {user:String})
                AND ({host:String} = '' OR has(hosts, {host:String}))
                AND ({gpus:String} = '' OR jobs.job_id IN (
                    SELECT arrayJoin(job_ids) FROM gpu_statuses WHERE {gpus:String} != '' AND status = {gpus:String}
                ))
                AND ({search:String} = ''
                    OR positionCaseInsensitiveUTF8(concat(jobs.job_id, '\n', name, '\n', command, '\n', user, '\n', account), {search:String}) > 0)
            ORDER BY
                if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
                if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
                job_id
            LIMIT {limit:UInt32} OFFSET {offset:UInt32}
        ) AS page
    ) AS shown  -- which jobs, and of how many: what costs most is then read of these alone
SELECT
    jobs.job_id AS job_id, name, command, user, account, scheduler, state, hosts, hosts_lost, gpus, world_size, started_at, ended_at,
    last_seen_at, duration_s, processes, cpu_cores, rss_bytes, gpu_memory_bytes,
    used.gpu_hours AS gpu_hours, used.idle_gpu_hours AS idle_gpu_hours, used.gpu_util AS gpu_util,
    used.sm_active AS sm_active, used.tensor_active AS tensor_active, used.power_watts AS power_watts,
    shown.2 AS total
FROM jobs
LEFT JOIN (SELECT * FROM used WHERE job_id IN shown.1) AS used ON used.job_id = jobs.job_id
WHERE jobs.job_id IN shown.1
ORDER BY indexOf(shown.1, jobs.job_id)
SETTINGS optimize_aggregation_in_order = 1
