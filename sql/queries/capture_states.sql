-- What did the GPU of each rank of a capture do, and what did it wait for? A row a rank: its span divided into computation, communication, copies, their overlaps, and idle time by cause.
-- @capture_id -  the capture
-- @process ''  one process of it (a rank's number); all where it is empty
SELECT
    process, rank, host, job_id, workload, gpu_model, devices, backend, world_size, captured_at, loaded_at, file, events, gpu_events,
    span_seconds, busy_seconds, idle_seconds, compute_seconds, comm_seconds, mem_seconds,
    comm_compute_overlap_seconds, mem_compute_overlap_seconds, mem_comm_overlap_seconds, exposed_comm_seconds, exposed_mem_seconds,
    total_seconds, idle_input_seconds, idle_sync_seconds, idle_allocation_seconds, idle_launching_seconds, idle_device_seconds,
    idle_unknown_seconds, launch_matched, launch_delay_p50_seconds, launch_delay_p99_seconds, queue_depth, steps, step_source,
    step_p50_seconds, step_min_seconds, step_max_seconds, flops, flops_per_s, mfu, memory_peak_bytes, memory_reserved_bytes, notes
FROM trace_ranks
WHERE capture_id = {capture_id:String} AND ({process:String} = '' OR process = {process:String})
ORDER BY rank, process
