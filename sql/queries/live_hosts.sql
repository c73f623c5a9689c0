-- Which hosts are there, and what does each do now? One row a host of the view hosts, briefly: as many as are shown at
-- once, of `total`. `mem_used` is the share of its memory that is not available; `seen_s` how long ago it was heard of.
-- @host ''  this host alone
-- @search ''  words that must all be in name, state or problems
-- @sort host  a column to sort by
-- @descending 0  1: the highest first
-- @limit 10000  how many rows
SELECT
    toString(t.host) AS host, t.state AS state, t.gpus AS gpus, t.gpus_gone AS gpus_gone,
    round(t.gpu_util, 4) AS gpu_util, round(t.sm_active, 4) AS sm_active, round(t.gpu_power_watts, 1) AS gpu_power_watts,
    t.cpu_util AS cpu_util,
    round(1 - t.mem_available_bytes / nullIf(t.mem_total_bytes, 0), 4) AS mem_used,
    t.load1 AS load1, t.network_bytes_per_s AS network_bytes_per_s, t.storage_bytes_per_s AS storage_bytes_per_s,
    greatest(0, dateDiff('second', t.last_seen_at, now64(3))) AS seen_s,
    arrayStringConcat(t.problems, '; ') AS problems,
    count() OVER () AS total
FROM hosts AS t
WHERE ({host:String} = '' OR t.host = {host:String})
    AND arrayAll(
        word -> positionCaseInsensitiveUTF8(concat(t.host, '\n', t.state, '\n', arrayStringConcat(t.problems, '; ')), word) > 0,
        splitByWhitespace({search:String})
    )
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    host
LIMIT {limit:UInt32}
