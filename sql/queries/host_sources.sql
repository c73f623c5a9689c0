-- What do the sources of a host's agent say, of themselves and of what they could not read? Their last words.
-- @host -  the host
SELECT source, subject, state, why, seconds, count, ok_at, first_at, last_seen_at, CAST(silent, 'Bool') AS silent
FROM source_health_now
WHERE host = {host:String}
ORDER BY state IN ('ok', 'unsupported'), source, subject
LIMIT 5000
