-- stack_hours: the hours of sampled stacks under the columns of stack_samples, so that one query reads either. What an hour
-- does not keep is 0 or empty there: pid, tid, thread.
CREATE OR REPLACE VIEW {{ name("stack_hours") }} {{ on_cluster }} AS
SELECT
    host, window AS ts, source, job_id, rank, toUInt32(0) AS pid, process, toUInt32(0) AS tid, '' AS thread, stack,
    samples, weight, unit, estimate
FROM {{ name("stack_windows_1h") }};
