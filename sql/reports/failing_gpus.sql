-- Which GPUs fail? Those with XIDs raised in the period, with memory errors that ECC could not mend or rows that were
-- remapped in it, or held back by heat, a power brake or the hardware. Counters start again when the driver is loaded: a
-- fall counts from zero. Held-back hours are hours in which it happened.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 200  how many rows
WITH
    series -> arrayMap(x -> x.2, arraySort(series)) AS in_time,
    (first, values) -> if(empty(values), 0, toUInt64(greatest(0, toInt64(values[1]) - toInt64(first))) + arraySum(arrayMap((before, now) -> if(now >= before, toUInt64(now - before), toUInt64(now)), arrayPopBack(values), arrayPopFront(values)))) AS growth,
    suspect AS
    (
        SELECT w.host AS host, w.gpu AS gpu, w.uuid AS uuid, uniqExactIf(w.window, bitAnd(w.throttle_reasons_max, 0xe8) != 0) AS held_back_hours
        FROM gpu_heatmap_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
        GROUP BY w.host, w.gpu, w.uuid
        HAVING held_back_hours > 0
            OR max(w.ecc_uncorrected_errors_max) > min(w.ecc_uncorrected_errors_min)
            OR max(w.remapped_rows_corrected_max) > min(w.remapped_rows_corrected_min)
            OR max(w.remapped_rows_uncorrected_max) > min(w.remapped_rows_uncorrected_min)
    ),
    grown AS
    (
        SELECT
            host, gpu, uuid,
            growth(argMinIf(uncorrected_min, window, isNotNull(uncorrected)), in_time(groupArrayIf((window, assumeNotNull(uncorrected)), isNotNull(uncorrected)))) AS uncorrected_errors,
            growth(argMinIf(remapped_min, window, isNotNull(remapped)), in_time(groupArrayIf((window, assumeNotNull(remapped)), isNotNull(remapped)))) AS remapped_rows
        FROM
        (
            SELECT
                w.host AS host, w.gpu AS gpu, w.uuid AS uuid, w.window AS window,
                max(w.ecc_uncorrected_errors_max) AS uncorrected,
                min(w.ecc_uncorrected_errors_min) AS uncorrected_min,
                max(w.remapped_rows_corrected_max + w.remapped_rows_uncorrected_max) AS remapped,
                min(w.remapped_rows_corrected_min + w.remapped_rows_uncorrected_min) AS remapped_min
            FROM gpu_heatmap_1h AS w
            WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')}
                AND (w.host, w.uuid) GLOBAL IN (SELECT host, uuid FROM suspect)
            GROUP BY w.host, w.gpu, w.uuid, w.window
        )
        GROUP BY host, gpu, uuid
    ),
    xids AS
    (
        SELECT e.host AS host, e.gpu AS gpu, toString(e.uuid) AS uuid, arraySort(groupUniqArray(e.code)) AS xids, count() AS reports
        FROM gpu_events AS e
        WHERE e.kind = 'xid' AND e.state = 'raised' AND e.ts >= {since:DateTime('UTC')} AND e.ts < {until:DateTime('UTC')}
        GROUP BY e.host, e.gpu, e.uuid
    )
SELECT
    host, gpu, uuid,
    arraySort(groupUniqArrayArray(codes)) AS xids,
    sum(reports) AS xid_reports,
    sum(errors) AS uncorrected_errors,
    sum(remapped) AS remapped_rows,
    sum(hours) AS held_back_hours,
    count() OVER () AS of
FROM
(
    SELECT host, gpu, toString(uuid) AS uuid, CAST([], 'Array(UInt32)') AS codes, 0 AS reports, uncorrected_errors AS errors, remapped_rows AS remapped, 0 AS hours FROM grown
    UNION ALL
    SELECT host, gpu, toString(uuid), CAST([], 'Array(UInt32)'), 0, 0, 0, held_back_hours FROM suspect
    UNION ALL
    SELECT host, gpu, uuid, xids, reports, 0, 0, 0 FROM xids
)
GROUP BY host, gpu, uuid
HAVING xid_reports > 0 OR uncorrected_errors > 0 OR remapped_rows > 0 OR held_back_hours > 0
ORDER BY xid_reports > 0 OR uncorrected_errors > 0 DESC, uncorrected_errors DESC, xid_reports DESC, remapped_rows DESC, held_back_hours DESC, host, gpu, uuid
LIMIT {limit:UInt32}
