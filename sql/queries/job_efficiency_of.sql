-- How well did a job use its GPUs, over its whole life? As the view job_efficiency, from its hours; energy is what its share
-- of its GPUs drew, wasted the time in which they were known to be below 5 %.
-- @job_id -  the job
SELECT
    sum(w.gpu_seconds) / 3600 AS gpu_hours,
    sum(w.idle_seconds) / 3600 AS wasted_gpu_hours,
    wasted_gpu_hours / nullIf(gpu_hours, 0) AS wasted,
    sum(w.gpu_util_seconds) / nullIf(sum(w.gpu_util_known_seconds), 0) AS gpu_util,
    sum(w.sm_active_seconds) / nullIf(sum(w.sm_active_known_seconds), 0) AS sm_active,
    sum(w.tensor_active_seconds) / nullIf(sum(w.tensor_active_known_seconds), 0) AS tensor_active,
    sum(w.dram_active_seconds) / nullIf(sum(w.dram_active_known_seconds), 0) AS dram_active,
    sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts,
    sum(w.energy_joules) AS energy_joules,
    nullIf(max(w.fb_used_bytes_max), 0) AS fb_used_bytes_max,
    sum(w.cpu_core_seconds) / nullIf(sum(w.cpu_known_seconds), 0) AS cpu_cores,
    max(w.rss_bytes_max) AS rss_bytes_max,
    sum(w.read_bytes) AS read_bytes,
    sum(w.written_bytes) AS written_bytes
FROM job_windows_1h AS w
WHERE w.job_id = {job_id:String}
HAVING count() > 0
