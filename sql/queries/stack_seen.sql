-- Which stacks were sampled? By what took them and what they weigh by: on how many hosts, of which processes, of which
-- ranks, and how much. What agents sample comes first, that with the most before others.
-- @since -1h  start of the window; of hours a whole one
-- @until now  end of the window
-- @host ''  of this host alone
-- @job_id ''  of this job alone
-- @windows stack_samples  or stack_hours
SELECT
    source,
    unit,
    uniqExact(host) AS hosts,
    arraySort(groupUniqArray(1000)(process)) AS processes,
    arraySort(groupUniqArray(10000)(rank)) AS ranks,
    sum(samples) AS samples,
    toUInt64(round(sum(estimate))) AS value
FROM {windows:Identifier}
WHERE ts >= {since:DateTime('UTC')} AND ts < {until:DateTime('UTC')}
    AND ({host:String} = '' OR host = {host:String})
    AND ({job_id:String} = '' OR job_id = {job_id:String})
GROUP BY source, unit
ORDER BY unit = 'microseconds' DESC, source IN ('py-spy', 'perf') DESC, value DESC, source
