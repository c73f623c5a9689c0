-- Which GPUs' memory is failing? Errors and remapped rows that were added in the window, from its minutes.
-- Counters start again when the driver is loaded: a fall counts from zero.
-- @since -24h  start of the window, rounded down to a minute
-- @until now  end of the window
WITH
    series -> arrayMap(x -> x.2, arraySort(series)) AS in_time,
    values -> arraySum(arrayMap((before, now) -> if(now >= before, toUInt64(now - before), toUInt64(now)), arrayPopBack(values), arrayPopFront(values))) AS growth
SELECT
    host, gpu, uuid,
    growth(in_time(corrected)) AS corrected_errors,
    growth(in_time(uncorrected)) AS uncorrected_errors,
    growth(in_time(remapped)) AS remapped_rows
FROM
(
    SELECT
        host, gpu, uuid,
        groupArrayIf((window, assumeNotNull(corrected)), isNotNull(corrected)) AS corrected,
        groupArrayIf((window, assumeNotNull(uncorrected)), isNotNull(uncorrected)) AS uncorrected,
        groupArrayIf((window, assumeNotNull(remapped)), isNotNull(remapped)) AS remapped
    FROM
    (
        SELECT
            host, gpu, uuid, window,
            max(ecc_corrected_errors_max) AS corrected,
            max(ecc_uncorrected_errors_max) AS uncorrected,
            max(remapped_rows_corrected_max + remapped_rows_uncorrected_max) AS remapped
        FROM gpu_heatmap_1m
        WHERE window >= toStartOfMinute({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
        GROUP BY host, gpu, uuid, window
    )
    GROUP BY host, gpu, uuid
)
WHERE corrected_errors > 0 OR uncorrected_errors > 0 OR remapped_rows > 0
ORDER BY uncorrected_errors DESC, remapped_rows DESC, corrected_errors DESC, host, gpu, uuid
