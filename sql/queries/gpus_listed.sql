-- Which GPUs are there, and what does each do? The view gpus, a page of it, with its status: busy, idle (below 5 %),
-- failing (an XID stands) or gone (lost, or nothing has been heard of it).
-- @host ''  of this host alone
-- @job_id ''  held by this job now
-- @status ''  busy, idle, failing or gone alone
-- @search ''  in host, uuid or model
-- @sort host  a column to sort by
-- @descending 0  1: the highest first
-- @limit 100  how many rows
-- @offset 0  after so many
SELECT
    gpus.* EXCEPT (job_ids),
    gpus.job_ids AS job_ids,
    xids,
    multiIf(
        gpus.state != 'ok', 'gone',
        notEmpty(xids), 'failing',
        isNotNull(gpus.idle_since), 'idle',
        'busy'
    ) AS status
FROM gpus
LEFT JOIN
(
    SELECT host, uuid, groupUniqArray(code) AS xids FROM gpu_xids WHERE isNull(cleared_at) GROUP BY host, uuid
) AS standing ON standing.host = gpus.host AND standing.uuid = gpus.uuid
WHERE ({host:String} = '' OR gpus.host = {host:String})
    AND ({job_id:String} = '' OR has(gpus.job_ids, {job_id:String}))
    AND ({status:String} = '' OR status = {status:String})
    AND ({search:String} = '' OR positionCaseInsensitiveUTF8(concat(gpus.host, ' ', gpus.uuid, ' ', gpus.model), {search:String}) > 0)
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    host, gpu, uuid
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
