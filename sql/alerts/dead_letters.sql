-- Messages that could not be stored were put with the dead letters: somebody writes what the store refuses.
-- severity: warning
-- for: 0
-- keep: 300
-- asked: always
-- summary: {value} messages of topic {topic} were refused in the last {minutes} minutes: {reason}
-- do: `warpmeter dead-letters list` shows them and why; mend who writes them, then `warpmeter dead-letters replay` brings in what can be stored.
-- @minutes 15  the window
-- @messages 1  refused in it, at least
SELECT topic, count() AS value, argMax(d.reason, d.ts) AS reason
FROM dead_letters AS d FINAL
WHERE d.ts > {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE AND d.ts <= {now:DateTime64(3, 'UTC')}
GROUP BY topic
HAVING value >= {messages:UInt64}
ORDER BY topic
