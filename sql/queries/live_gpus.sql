-- What does each GPU do now? One row a GPU of the view gpu_statuses, briefly: as many as are shown at once, of `total`.
-- `idle_s` is how long it has been below 5 %, NULL where it is not; `job_id` the first job that holds it, with `jobs` in all;
-- `seen_s` how long ago it was heard of.
-- @host ''  of this host alone
-- @job_id ''  held by this job now
-- @search ''  words that must all be in host, status, job, model, uuid or problems
-- @sort host  a column to sort by
-- @descending 0  1: the highest first
-- @limit 10000  how many rows
SELECT
    toString(t.host) AS host, t.gpu AS gpu, t.uuid AS uuid, toString(t.model) AS model, t.status AS status,
    t.gpu_util AS gpu_util, t.sm_active AS sm_active, t.tensor_active AS tensor_active, t.dram_active AS dram_active,
    t.fb_used_bytes AS fb_used_bytes, t.fb_total_bytes AS fb_total_bytes,
    t.power_watts AS power_watts, t.temperature_celsius AS temperature_celsius,
    if(isNull(t.idle_since), NULL, greatest(0, dateDiff('second', t.idle_since, now64(3)))) AS idle_s,
    t.job_ids[1] AS job_id, length(t.job_ids) AS jobs,
    greatest(0, dateDiff('second', t.last_seen_at, now64(3))) AS seen_s,
    if(t.status = 'gone', if(t.why = '', t.state, t.why), arrayStringConcat(t.problems, '; ')) AS problems,
    count() OVER () AS total
FROM gpu_statuses AS t
WHERE ({host:String} = '' OR t.host = {host:String})
    AND ({job_id:String} = '' OR has(t.job_ids, {job_id:String}))
    AND arrayAll(
        word -> positionCaseInsensitiveUTF8(
            concat(
                t.host, '\n', t.status, '\n', t.job_ids[1], '\n', t.model, '\n', t.uuid, '\n', t.why, '\n',
                arrayStringConcat(t.problems, '; ')
            ), word) > 0,
        splitByWhitespace({search:String})
    )
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    host, gpu, uuid
LIMIT {limit:UInt32}
