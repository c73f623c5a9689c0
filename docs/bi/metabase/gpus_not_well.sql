-- GPUs that somebody must look at. Variables: host (Text, optional).
SELECT host, gpu, model, status, arrayStringConcat(problems, ', ') AS problems, why, last_seen_at
FROM gpu_statuses
WHERE status IN ('gone', 'failing') [[AND host = {{host}}]]
ORDER BY host, gpu
