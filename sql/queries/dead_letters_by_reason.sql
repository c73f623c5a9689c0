-- What was refused, and why? Messages that could not be stored, by topic and reason.
-- @since -24h  refused since then
SELECT topic, reason, count() AS messages, min(ts) AS first_at, max(ts) AS last_at, anyLast(key) AS example_key
FROM dead_letters FINAL
WHERE ts >= {since:DateTime('UTC')}
GROUP BY topic, reason
ORDER BY messages DESC, topic, reason
