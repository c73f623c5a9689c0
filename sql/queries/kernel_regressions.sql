-- Which kernels got slower? Of the same workload on the same GPU model, those that ran slower in a week than in each of the weeks before it, the costliest first, and on which of its GPU models.
-- @since -14d  start of the window, rounded down to a week
-- @until now  end of the window
-- @limit 20  how many
SELECT
    week, workload, gpu_model, short_name AS kernel, slowdown, mean_seconds, baseline_seconds, baseline_weeks, cost_seconds, captures, regressed_on,
    gpu_models
FROM kernel_regressions
WHERE regressed AND week >= toMonday({since:DateTime('UTC')}) AND week <= {until:DateTime('UTC')}
ORDER BY cost_seconds DESC, workload, gpu_model, name
LIMIT {limit:UInt32}
