-- Which jobs run now, and what do their GPUs do? One row a job of the view jobs that runs or is lost, briefly: as many as
-- are shown at once, of `total`. `gpus` are those that it holds now, `gpus_idle` and `gpus_failing` (gone ones too) of them;
-- utilisation is their mean, power their sum, of this moment.
-- @host ''  on this host alone
-- @job_id ''  this job alone
-- @search ''  words that must all be in id, name, user, account, state or command
-- @sort job_id  a column to sort by
-- @descending 0  1: the highest first
-- @limit 10000  how many rows
WITH held AS
(
    SELECT
        job AS job_id,
        count() AS gpus,
        countIf(g.status = 'idle') AS gpus_idle,
        countIf(g.status IN ('failing', 'gone')) AS gpus_failing,
        avgOrNullIf(g.gpu_util, g.state = 'ok') AS gpu_util,
        avgOrNullIf(g.sm_active, g.state = 'ok') AS sm_active,
        sumOrNullIf(g.power_watts, g.state = 'ok') AS power_watts
    FROM gpu_statuses AS g
    ARRAY JOIN g.job_ids AS job
    GROUP BY job
)
SELECT
    t.job_id AS job_id, t.name AS name, t.user AS user, t.account AS account, t.state AS state,
    length(t.hosts) AS hosts, held.gpus AS gpus, held.gpus_idle AS gpus_idle, held.gpus_failing AS gpus_failing,
    t.world_size AS world_size,
    round(held.gpu_util, 4) AS gpu_util, round(held.sm_active, 4) AS sm_active, round(held.power_watts, 1) AS power_watts,
    t.cpu_cores AS cpu_cores, t.rss_bytes AS rss_bytes, t.gpu_memory_bytes AS gpu_memory_bytes,
    greatest(0, dateDiff('second', t.started_at, now64(3))) AS running_s,
    t.command AS command,
    count() OVER () AS total
FROM jobs AS t
LEFT JOIN held ON held.job_id = t.job_id
WHERE t.state != 'ended'
    AND ({host:String} = '' OR has(t.hosts, {host:String}))
    AND ({job_id:String} = '' OR t.job_id = {job_id:String})
    AND arrayAll(
        word -> positionCaseInsensitiveUTF8(
            concat(t.job_id, '\n', t.name, '\n', t.user, '\n', t.account, '\n', t.state, '\n', t.command), word) > 0,
        splitByWhitespace({search:String})
    )
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    job_id
LIMIT {limit:UInt32}
