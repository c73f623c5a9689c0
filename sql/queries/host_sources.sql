-- What do the sources of a host's agent say, of themselves and of what they could not read? Their last words, the worst
-- first; of a source that is told of, only what is told now.
-- @host -  the host
SELECT source, subject, state, why, seconds, count, ok_at, first_at, last_seen_at, CAST(silent, 'Bool') AS silent
FROM
(
    SELECT *, max(subject = '' AND NOT source_health_now.silent) OVER (PARTITION BY source) AS told
    FROM source_health_now
    WHERE host = {host:String}
)
WHERE NOT (subject != '' AND silent AND told)
ORDER BY indexOf(['denied', 'failed', 'timeout', 'gone', 'paused', 'unsupported', 'ok'], state), source, subject
LIMIT 5000
