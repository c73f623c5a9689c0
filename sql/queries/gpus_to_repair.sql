-- Which GPUs need somebody? Those that are gone or have problems, what these are, and which jobs are on them.
SELECT host, gpu, uuid, model, status, why, problems, xids, job_ids, last_seen_at
FROM gpu_statuses
WHERE status IN ('gone', 'failing')
ORDER BY status, host, gpu, uuid
