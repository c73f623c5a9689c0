-- The clock of a host is ahead of the scheduler's, or was stepped: its samples lie at wrong times. One that was ahead by more than a day is right again when it has samples of now.
-- severity: warning
-- for: 0
-- keep: 120
-- unit: s
-- summary: The clock of host {host} is off: {why}
-- do: Look at time synchronisation on the host (`chronyc tracking`, `timedatectl`).
-- @ahead_s 5  seconds ahead of the scheduler that are too many
SELECT host, max(off.seconds) AS value, any(off.why) AS why
FROM
(
    SELECT
        host, dateDiff('millisecond', {now:DateTime64(3, 'UTC')}, max(host_last.last_at)) / 1000 AS seconds,
        concat('it is ', toString(round(seconds, 1)), ' s ahead') AS why
    FROM host_last
    GROUP BY host
    HAVING seconds > {ahead_s:Float64} AND (seconds <= 86400 OR host GLOBAL NOT IN (
        SELECT host
        FROM host_samples
        WHERE ts > {now:DateTime64(3, 'UTC')} - INTERVAL 1 MINUTE AND ts <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 MINUTE
            AND host GLOBAL IN (SELECT host FROM host_last WHERE last_at > {now:DateTime64(3, 'UTC')} + INTERVAL 1 DAY)
    ))
    UNION ALL
    SELECT host, NULL AS seconds, last.why AS why
    FROM
    (
        SELECT host, max(source_last.last_at) AS seen_at, argMaxMerge(latest) AS last
        FROM source_last
        WHERE source = 'clock' AND subject = ''
        GROUP BY host
    )
    WHERE last.state = 'failed' AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
) AS off
GROUP BY host
ORDER BY host
