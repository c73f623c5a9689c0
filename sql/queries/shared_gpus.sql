-- Which GPUs do several jobs share now? With the jobs, how busy the GPU is, and how much of its memory is left.
SELECT host, gpu, uuid, model, length(job_ids) AS jobs, job_ids, gpu_util, fb_used_bytes, fb_total_bytes - fb_used_bytes AS fb_free_bytes
FROM gpus
WHERE state = 'ok' AND length(job_ids) > 1
ORDER BY jobs DESC, host, gpu, uuid
