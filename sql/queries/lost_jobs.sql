-- Which jobs ended without a word? Their host or agent went silent; what they held and when they were last heard of.
SELECT job_id, name, user, hosts, hosts_lost, gpus, started_at, last_seen_at
FROM jobs
WHERE state != 'running' AND notEmpty(hosts_lost)
ORDER BY last_seen_at DESC, job_id
