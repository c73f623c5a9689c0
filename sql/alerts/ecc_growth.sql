-- Errors of a GPU's memory grow: many were mended, or rows were remapped, within a day.
-- severity: warning
-- for: 0
-- keep: 0
-- every: 300
-- summary: GPU {gpu} of host {host} had {value} memory errors mended and {remapped} rows remapped in {hours} hours
-- do: Watch it; plan a reset of the GPU in the next window of maintenance. `warpmeter queries ecc_growth` has all of them.
-- @hours 24  the window
-- @errors 20  mended in it, at least
SELECT host, gpu, uuid, corrected AS value, remapped
FROM
(
    SELECT
        host, gpu, uuid,
        if(max(w.window) > min(w.window) AND argMax(w.ecc_corrected_errors_max, w.window) < max(w.ecc_corrected_errors_max),
            argMax(w.ecc_corrected_errors_max, w.window), max(w.ecc_corrected_errors_max) - min(w.ecc_corrected_errors_min)) AS corrected,
        toInt64(max(ifNull(w.remapped_rows_corrected_max, 0) + ifNull(w.remapped_rows_uncorrected_max, 0)))
            - toInt64(min(ifNull(w.remapped_rows_corrected_min, 0) + ifNull(w.remapped_rows_uncorrected_min, 0))) AS remapped
    FROM gpu_heatmap_1h AS w
    WHERE w.window > {now:DateTime64(3, 'UTC')} - INTERVAL {hours:UInt32} HOUR AND w.window <= {now:DateTime64(3, 'UTC')}
    GROUP BY host, gpu, uuid
)
WHERE corrected >= {errors:UInt64} OR remapped > 0
ORDER BY host, gpu, uuid
