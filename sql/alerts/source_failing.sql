-- An agent cannot read something that it could read, or should be able to: a source or a part of it fails or takes too long.
-- severity: warning
-- for: 120
-- keep: 120
-- summary: Source {source} of host {host} fails ({value} of its subjects): {what}
-- do: `warpmeter sql "SELECT * FROM source_health_now WHERE host = '{host}' AND state NOT IN ('ok', 'unsupported')"` has the reasons; docs/sources.md says what each source needs.
SELECT
    host, source,
    count() AS value,
    argMin(concat(if(subject = '', '', concat(subject, ': ')), last.state, if(last.why = '', '', concat(', ', last.why))), subject) AS what
FROM
(
    SELECT host, source, subject, max(source_last.last_at) AS seen_at, argMaxMerge(latest) AS last
    FROM source_last
    WHERE source != 'clock'
    GROUP BY host, source, subject
)
WHERE last.state IN ('failed', 'timeout')
    AND seen_at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND seen_at >= {now:DateTime64(3, 'UTC')} - INTERVAL greatest(60, intDiv(6 * toInt64(last.period_ms), 1000)) SECOND
GROUP BY host, source
ORDER BY host, source
