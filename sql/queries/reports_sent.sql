-- What became of reports? The view reports, the newest first: of each report a row of its own, where target is empty, and one a target it goes to.
-- @since -30d  start of the window, by what was said last
-- @schedule ''  of this schedule alone
-- @report_id ''  this report alone
-- @limit 200  how many rows
SELECT
    report_id,
    target,
    state,
    last_at,
    schedule,
    report,
    subject,
    period_start,
    period_end,
    attempt,
    why,
    bytes,
    url,
    title
FROM reports
WHERE last_at >= {since:DateTime('UTC')} AND state != 'skipped'
    AND ({schedule:String} = '' OR schedule = {schedule:String})
    AND ({report_id:String} = '' OR report_id = {report_id:String})
ORDER BY period_end DESC, report_id, target
LIMIT {limit:UInt32}
