-- What happened to a host in the window? XIDs raised, GPUs lost, clocks held down by power, heat or hardware (by minutes
-- that touch), and sources whose state changed; the latest first. `until` is NULL while it lasts.
-- @host -  the host
-- @since -6h  start of the window
-- @until now  end of the window
-- @limit 500  how many events
SELECT *
FROM
(
    SELECT
        raised_at AS at, cleared_at AS `until`, 'xid' AS kind, toNullable(gpu) AS gpu, toString(uuid) AS uuid,
        concat('XID ', toString(code), if(what = '', '', concat(': ', what))) AS what,
        if(count > 1, concat(toString(count), ' times; last ', toString(last_raised_at), if(why = '', '', concat('; ', why))), why) AS why,
        job_ids
    FROM gpu_xids
    WHERE host = {host:String} AND raised_at < {until:DateTime64(3, 'UTC')} AND ifNull(cleared_at, last_raised_at) >= {since:DateTime64(3, 'UTC')}

    UNION ALL

    SELECT
        min(minute) AS at,
        if(max(minute) + 120 < {until:DateTime64(3, 'UTC')}, toNullable(toDateTime64(max(minute) + 60, 3, 'UTC')), NULL) AS `until`,
        'throttle' AS kind, toNullable(gpu) AS gpu, toString(uuid) AS uuid,
        concat('clocks held down for ', toString(round(sum(held_s))), ' s') AS what,
        arrayStringConcat(arraySort(groupUniqArrayArray(reasons)), ', ') AS why,
        [] AS job_ids
    FROM
    (
        SELECT gpu, uuid, minute, held_s, reasons, sum(begins) OVER (PARTITION BY gpu, uuid ORDER BY minute) AS episode
        FROM
        (
            SELECT
                gpu, uuid, minute, held_s, reasons,
                minute > lagInFrame(minute, 1, toDateTime64(0, 3, 'UTC')) OVER (
                    PARTITION BY gpu, uuid ORDER BY minute ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
                ) + 60 AS begins
            FROM
            (
                SELECT
                    gpu, uuid, toDateTime64(toStartOfMinute(ts), 3, 'UTC') AS minute, sum(period_ms) / 1000 AS held_s,
                    groupUniqArrayArray(arrayFilter(
                        reason -> reason NOT IN ('gpu_idle', 'applications_clocks_setting', 'sync_boost', 'display_clock_setting'),
                        throttled_by
                    )) AS reasons
                FROM gpu_samples
                WHERE host = {host:String} AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
                    AND bitAnd(throttle_reasons, 0xec) != 0
                GROUP BY gpu, uuid, minute
            )
        )
    )
    GROUP BY gpu, uuid, episode

    UNION ALL

    SELECT
        ts AS at, next_ok AS `until`,
        if(state = 'gone' AND subject != '', 'gone', 'source') AS kind, known.gpu AS gpu, subject AS uuid,
        concat(source, if(subject = '', '', concat(' ', subject)), ': ', state) AS what,
        why, [] AS job_ids
    FROM
    (
        SELECT
            source, subject, ts, state, why,
            lagInFrame(toString(state), 1, '') OVER before AS state_before,
            minOrNullIf(ts, state = 'ok') OVER after AS next_ok
        FROM source_health
        WHERE host = {host:String} AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
        WINDOW
            before AS (PARTITION BY source, subject ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
            after AS (PARTITION BY source, subject ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ) AS said
    LEFT JOIN
    (
        SELECT uuid, any(toNullable(gpu)) AS gpu FROM gpu_last WHERE host = {host:String} GROUP BY uuid
    ) AS known ON known.uuid = said.subject
    WHERE state != state_before AND (state NOT IN ('ok', 'unsupported') OR (state = 'ok' AND state_before NOT IN ('', 'unsupported')))
)
ORDER BY at DESC, kind, gpu, what
LIMIT {limit:UInt32}
