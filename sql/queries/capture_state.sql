-- Is a capture there, captured and analysed? What schedulers and agents say of it; nothing of one that was loaded by hand. A row a round.
-- @capture_id -  the capture
SELECT
    ranks.sequence AS sequence,
    count() AS processes,
    countIf(ranks.url != '') AS captured,
    countIf(ranks.state = 'analysed' AND ranks.reason = '') AS analysed,
    countIf(ranks.state = 'analysed' AND ranks.reason != '') AS analysis_failed,
    countIf(ranks.url = '' AND ranks.state IN ('failed', 'cancelled')) AS failed,
    anyIf(ranks.why, ranks.state = 'analysed' AND ranks.reason != '') AS analysis_why,
    anyIf(ranks.why, ranks.url = '' AND ranks.state IN ('failed', 'cancelled')) AS why
FROM capture_ranks AS ranks
WHERE capture_id = {capture_id:String}
GROUP BY sequence
ORDER BY sequence
