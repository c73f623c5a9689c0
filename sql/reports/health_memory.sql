-- Which GPUs' memory fails? Errors and remapped rows that were added in the period, by the highest value of each hour.
-- Counters start again when the driver is loaded: a fall counts from zero.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 2000  how many rows
WITH
    series -> arrayMap(x -> x.2, arraySort(series)) AS in_time,
    (first, values) -> if(empty(values), 0, toUInt64(greatest(0, toInt64(values[1]) - toInt64(first))) + arraySum(arrayMap((before, now) -> if(now >= before, toUInt64(now - before), toUInt64(now)), arrayPopBack(values), arrayPopFront(values)))) AS growth
SELECT
    host, gpu, uuid,
    growth(argMinIf(corrected_min, window, isNotNull(corrected)), in_time(groupArrayIf((window, assumeNotNull(corrected)), isNotNull(corrected)))) AS corrected_errors,
    growth(argMinIf(uncorrected_min, window, isNotNull(uncorrected)), in_time(groupArrayIf((window, assumeNotNull(uncorrected)), isNotNull(uncorrected)))) AS uncorrected_errors,
    growth(argMinIf(remapped_min, window, isNotNull(remapped)), in_time(groupArrayIf((window, assumeNotNull(remapped)), isNotNull(remapped)))) AS remapped_rows
FROM
(
    SELECT
        w.host AS host, w.gpu AS gpu, toString(w.uuid) AS uuid, w.window AS window,
        max(w.ecc_corrected_errors_max) AS corrected, min(w.ecc_corrected_errors_min) AS corrected_min,
        max(w.ecc_uncorrected_errors_max) AS uncorrected, min(w.ecc_uncorrected_errors_min) AS uncorrected_min,
        max(w.remapped_rows_corrected_max + w.remapped_rows_uncorrected_max) AS remapped,
        min(w.remapped_rows_corrected_min + w.remapped_rows_uncorrected_min) AS remapped_min
    FROM gpu_heatmap_1h AS w
    WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        AND (w.host, w.uuid) GLOBAL IN
        (
            SELECT s.host, s.uuid
            FROM gpu_heatmap_1h AS s
            WHERE s.window >= {since:DateTime('UTC')} AND s.window < {until:DateTime('UTC')}
            GROUP BY s.host, s.uuid
            HAVING max(s.ecc_corrected_errors_max) > min(s.ecc_corrected_errors_min)
                OR max(s.ecc_uncorrected_errors_max) > min(s.ecc_uncorrected_errors_min)
                OR max(s.remapped_rows_corrected_max) > min(s.remapped_rows_corrected_min)
                OR max(s.remapped_rows_uncorrected_max) > min(s.remapped_rows_uncorrected_min)
        )
    GROUP BY w.host, w.gpu, w.uuid, w.window
)
GROUP BY host, gpu, uuid
HAVING corrected_errors > 0 OR uncorrected_errors > 0 OR remapped_rows > 0
ORDER BY uncorrected_errors DESC, remapped_rows DESC, corrected_errors DESC, host, gpu, uuid
LIMIT {limit:UInt32}
