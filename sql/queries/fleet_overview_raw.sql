-- How busy is the fleet? The same as fleet_overview from the raw rows, for windows that do not fall on minutes.
-- @since -6h  start of the window
-- @until now  end of the window
SELECT
    avg(gpu_util_permille) / 1000 AS gpu_util,
    avg(sm_active_permille) / 1000 AS sm_active,
    avg(tensor_active_permille) / 1000 AS tensor_active,
    arrayMap(x -> x / 1000, quantilesTiming(0.5, 0.95)(gpu_util_permille)) AS gpu_util_quantiles,
    arrayMap(x -> x / 1000, quantilesTiming(0.5, 0.95)(sm_active_permille)) AS sm_active_quantiles,
    arrayMap(x -> x / 1000, quantilesTiming(0.5, 0.95)(tensor_active_permille)) AS tensor_active_quantiles
FROM gpu_samples
WHERE ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
