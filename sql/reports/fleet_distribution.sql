-- How are utilisation and SM activity spread? GPU hours by the mean of a GPU in an hour, in bands of ten per cent: in which
-- hours GPUs were how busy. An hour of a GPU counts for the time it was measured; hours in which the figure is not known are
-- in no band.
-- @since -  start of the period, a whole hour
-- @until -  its end
WITH hours AS
(
    SELECT
        sum(w.covered_ms) / 3600000 AS hours,
        least(9, intDiv(sum(w.gpu_util_permille_sum), nullIf(sum(w.gpu_util_permille_count), 0) * 100)) AS util,
        least(9, intDiv(sum(w.sm_active_permille_sum), nullIf(sum(w.sm_active_permille_count), 0) * 100)) AS sm
    FROM gpu_heatmap_1h AS w
    WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
    GROUP BY cityHash64(w.host, w.gpu, w.uuid, w.window)  -- a number is grouped by three times as fast as four columns
)
SELECT
    round(bands.number / 10, 1) AS from_share,
    round((bands.number + 1) / 10, 1) AS to_share,
    round(spread.util_hours, 6) AS gpu_util_gpu_hours,
    round(spread.util_hours / nullIf(sum(spread.util_hours) OVER (), 0), 6) AS gpu_util_share,
    round(spread.sm_hours, 6) AS sm_active_gpu_hours,
    round(spread.sm_hours / nullIf(sum(spread.sm_hours) OVER (), 0), 6) AS sm_active_share
FROM numbers(10) AS bands
GLOBAL LEFT JOIN
(
    SELECT band, sum(if(of = 'util', hours, 0)) AS util_hours, sum(if(of = 'sm', hours, 0)) AS sm_hours
    FROM (SELECT hours, arrayJoin([('util', util), ('sm', sm)]) AS told, told.1 AS of, told.2 AS band FROM hours)
    WHERE band IS NOT NULL
    GROUP BY band
) AS spread ON spread.band = bands.number
ORDER BY from_share
