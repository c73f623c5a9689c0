-- A GPU reported an XID that is no fault of a program, and it stands: neither a reset nor a reload of the driver has followed.
-- severity: critical
-- for: 0
-- keep: 0
-- summary: GPU {gpu} of host {host} has XID {xid}: {what}
-- do: Drain the host and reset the GPU (`nvidia-smi -r`) or restart the host; docs/gpus.md says when it is over.
-- @days 30  one that stands for longer is no more alerted of
SELECT host, gpu, uuid, code AS xid, count() AS value, argMax(e.what, e.ts) AS what, arraySort(groupUniqArrayArray(CAST(e.job_ids, 'Array(String)'))) AS jobs
FROM gpu_events AS e
WHERE e.kind = 'xid' AND code NOT IN (8, 11, 13, 25, 31, 32, 37, 42, 43, 44, 45, 47, 66, 67, 68, 69, 70, 71, 72, 73, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 96, 97, 98, 109, 137, 142)
    AND e.ts > {now:DateTime64(3, 'UTC')} - INTERVAL {days:UInt32} DAY AND e.ts <= {now:DateTime64(3, 'UTC')}
GROUP BY host, gpu, uuid, xid
HAVING argMax(e.state, (e.ts, e.state = 'cleared')) = 'raised'
ORDER BY host, gpu, uuid, xid
