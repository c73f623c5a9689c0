-- Which hosts are there, and how is each? The view hosts, a page of it.
-- @search ''  in the name
-- @state ''  ok, failing or silent alone
-- @host ''  this host alone
-- @gpus ''  with a GPU that is busy, idle, failing or gone now
-- @sort host  a column to sort by
-- @descending 0  1: the highest first
-- @limit 100  how many rows
-- @offset 0  after so many
SELECT *
FROM hosts
WHERE ({search:String} = '' OR positionCaseInsensitiveUTF8(host, {search:String}) > 0)
    AND ({state:String} = '' OR state = {state:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({gpus:String} = '' OR host IN (
        SELECT host FROM gpu_statuses WHERE {gpus:String} != '' AND status = {gpus:String}
    ))
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    host
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1, optimize_aggregation_in_order = 1
