-- A program made its GPU report an XID: the remedy is to restart the program.
-- severity: info
-- for: 0
-- keep: 0
-- summary: A program on GPU {gpu} of host {host} caused XID {xid}: {what} (jobs {jobs})
-- do: Tell whose job it is: an illegal access or a fault of its kernels ended it. On another GPU as well, it is the program; only here, it may be the GPU.
-- @days 1  one that stands for longer is no more alerted of
SELECT host, gpu, uuid, code AS xid, count() AS value, argMax(e.what, e.ts) AS what, arraySort(groupUniqArrayArray(CAST(e.job_ids, 'Array(String)'))) AS jobs
FROM gpu_events AS e
WHERE e.kind = 'xid' AND code IN (8, 11, 13, 25, 31, 32, 37, 42, 43, 44, 45, 47, 66, 67, 68, 69, 70, 71, 72, 73, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 96, 97, 98, 109, 137, 142)
    AND e.ts > {now:DateTime64(3, 'UTC')} - INTERVAL {days:UInt32} DAY AND e.ts <= {now:DateTime64(3, 'UTC')}
GROUP BY host, gpu, uuid, xid
HAVING argMax(e.state, (e.ts, e.state = 'cleared')) = 'raised'
ORDER BY host, gpu, uuid, xid
