-- Which hosts have gone silent? For how long, with how many GPUs, and which jobs were lost with them.
SELECT
    hosts.host AS host, hosts.last_seen_at AS last_seen_at,
    dateDiff('second', hosts.last_seen_at, now()) AS silent_s,
    hosts.gpus AS gpus, hosts.agent_version AS agent_version,
    arraySort(arrayFilter(job -> job != '', groupArray(lost.job_id))) AS jobs_lost
FROM hosts
LEFT JOIN (SELECT job_id, arrayJoin(jobs.hosts_lost) AS host FROM jobs) AS lost ON lost.host = hosts.host
WHERE hosts.state = 'silent'
GROUP BY ALL
ORDER BY last_seen_at, host
