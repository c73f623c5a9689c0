-- Whose threads keep the hosts busy? Time of threads by job and process as sampled stacks tell it, in cores; the largest first.
-- @since -24h  start of the window, rounded down to an hour
-- @until now  end of the window
-- @source py-spy  or perf
-- @limit 20  how many
SELECT
    s.job_id AS job_id, s.process AS process,
    uniqExact(s.host) AS hosts,
    sum(s.estimate) / 1e6 AS thread_seconds,
    thread_seconds / dateDiff('second', toStartOfHour({since:DateTime('UTC')}), {until:DateTime('UTC')}) AS cores,
    sum(s.samples) AS samples
FROM stack_windows_1h AS s
WHERE s.window >= toStartOfHour({since:DateTime('UTC')}) AND s.window < {until:DateTime('UTC')} AND s.source = {source:String} AND s.unit = 'microseconds'
GROUP BY job_id, process
ORDER BY thread_seconds DESC, job_id, process
LIMIT {limit:UInt32}
