-- What became of a capture that was asked for: how many of its processes were captured, analysed, or failed, and why? A row a round, or one without a round; nothing of a capture that was loaded by hand.
-- @capture_id -  the capture
SELECT
    captures.state AS state, captures.reason AS reason, captures.why AS why, captures.job_id AS job_id, captures.name AS name,
    rounds.sequence AS sequence, rounds.processes AS processes, rounds.captured AS captured, rounds.analysed AS analysed,
    rounds.analysis_failed AS analysis_failed, rounds.failed AS failed, rounds.analysis_why AS analysis_why, rounds.failed_why AS failed_why
FROM captures
LEFT JOIN
(
    SELECT
        each.capture_id AS capture_id,
        each.sequence AS sequence,
        countIf(each.pid IS NOT NULL) AS processes,
        countIf(each.url != '') AS captured,
        countIf(each.state = 'analysed' AND each.reason = '') AS analysed,
        countIf(each.state = 'analysed' AND each.reason != '') AS analysis_failed,
        countIf(each.url = '' AND each.state IN ('failed', 'cancelled')) AS failed,
        anyIf(each.why, each.state = 'analysed' AND each.reason != '') AS analysis_why,
        anyIf(each.why, each.url = '' AND each.state IN ('failed', 'cancelled')) AS failed_why
    FROM capture_ranks AS each
    WHERE each.capture_id = {capture_id:String}
    GROUP BY capture_id, sequence
) AS rounds ON rounds.capture_id = captures.capture_id
WHERE captures.capture_id = {capture_id:String}
ORDER BY sequence
