-- How did one kernel fare over the weeks? Its mean duration in each week, by workload and GPU model.
-- @kernel -  name of the kernel, or a part of it
-- @since -90d  start of the window, rounded down to a week
-- @until now  end of the window
SELECT week, workload, gpu_model, name AS kernel, captures, count, mean_seconds, slowdown, regressed
FROM kernel_regressions
WHERE position(name, {kernel:String}) > 0 AND week >= toMonday({since:DateTime('UTC')}) AND week <= {until:DateTime('UTC')}
ORDER BY name, workload, gpu_model, week
