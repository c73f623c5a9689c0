-- Which GPUs are there, and what does each do? A page of the view gpu_statuses; `status`: busy, idle (below 5 %),
-- failing (it has `problems`: XIDs, memory errors, clocks held down by what harms) or gone (lost, or nothing has been heard
-- of it).
-- @host ''  of this host alone
-- @job_id ''  held by this job now
-- @status ''  busy, idle, failing or gone alone
-- @search ''  in host, uuid or model
-- @sort host  a column to sort by
-- @descending 0  1: the highest first
-- @limit 100  how many rows
-- @offset 0  after so many
SELECT *
FROM gpu_statuses
WHERE ({host:String} = '' OR host = {host:String})
    AND ({job_id:String} = '' OR has(job_ids, {job_id:String}))
    AND ({status:String} = '' OR status = {status:String})
    AND ({search:String} = '' OR positionCaseInsensitiveUTF8(concat(host, ' ', uuid, ' ', model), {search:String}) > 0)
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    host, gpu, uuid
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
