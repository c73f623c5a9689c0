-- Which reports were made, and did those they go to get them? One row a report, the latest period first, with its deliveries.
-- @schedule ''  of this schedule alone
-- @report_id ''  this report alone
-- @limit 100  how many reports
-- @offset 0  after so many
SELECT
    r.report_id AS report_id,
    max(r.schedule) AS schedule,
    any(r.report) AS report,
    any(r.subject) AS subject,
    anyIf(r.title, r.title != '') AS title,
    min(r.period_start) AS period_start,
    max(r.period_end) AS period_end,
    anyIf(r.state, r.target = '') AS state,
    anyIf(r.why, r.target = '') AS why,
    anyIf(r.bytes, r.target = '') AS bytes,
    max(r.last_at) AS last_at,
    arraySort(each -> each.target, groupArrayIf(
        CAST((r.target, r.state, r.last_at, r.attempt, r.why), 'Tuple(target String, state String, last_at DateTime64(3, \'UTC\'), attempt UInt32, why String)'),
        r.target != '')) AS deliveries,
    count() OVER () AS total
FROM reports AS r
WHERE r.state != 'skipped'
    AND ({schedule:String} = '' OR r.schedule = {schedule:String})
    AND ({report_id:String} = '' OR r.report_id = {report_id:String})
GROUP BY r.report_id
ORDER BY period_end DESC, report_id
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
