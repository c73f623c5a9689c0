-- Which alerts are there, and how does each stand? Those of the view alerts_now that were open in the window, a page of them.
-- @since -7d  start of the window; what is still pending or firing is older, too
-- @until now  end of the window
-- @alert_id ''  this one alone
-- @state ''  pending, firing, resolved or dropped alone; open: the first two; else all but those that were dropped
-- @severity ''  info, warning or critical alone
-- @rule ''  of this rule alone
-- @host ''  about this host alone
-- @job_id ''  about this job alone
-- @search ''  in rule, summary and the values of labels
-- @sort urgency  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 100  how many rows
-- @offset 0  after so many
WITH
    latest AS
    (
        SELECT a.alert_id AS alert_id, max(a.ts) AS at
        FROM alerts AS a
        WHERE a.started_at < {until:DateTime('UTC')} + INTERVAL 1 SECOND
            AND ({alert_id:String} = '' OR a.alert_id = {alert_id:String})
            AND ({rule:String} = '' OR a.rule = {rule:String})
        GROUP BY a.alert_id
        HAVING argMax(a.state, a.ts) IN ('pending', 'firing') OR at >= {since:DateTime('UTC')}
    ),
    words AS
    (
        SELECT w.subject AS subject, argMax(w.action, w.ts) AS action, argMax(w.said_by, w.ts) AS said_by, max(w.ts) AS at
        FROM alert_words AS w
        WHERE w.action IN ('acknowledge', 'unacknowledge')
        GROUP BY w.subject
    )
SELECT
    now.alert_id AS alert_id, now.ts AS last_at, rule, severity, state, fingerprint, labels, summary, description, value, unit,
    started_at, fired_at, resolved_at, flapping, silenced_by,
    multiIf(words.at <= now.ts OR words.subject = '', now.acknowledged_by, words.action = 'acknowledge', words.said_by, '') AS acknowledged_by,
    capture_id, findings,
    labels['host'] AS host,
    labels['job_id'] AS job_id,
    -- Firing before pending before the rest, what nobody takes care of before the rest of those, and by severity.
    multiIf(state = 'firing', if(silenced_by = '' AND acknowledged_by = '', 30, 20), state = 'pending', 10, 0)
        + indexOf(['info', 'warning', 'critical'], toString(severity)) AS urgency
FROM alerts AS now
GLOBAL LEFT JOIN words ON words.subject = now.alert_id
WHERE (now.alert_id, now.ts) GLOBAL IN (SELECT alert_id, at FROM latest)
    AND multiIf(
        {state:String} = '', state != 'dropped', {state:String} = 'open', state IN ('pending', 'firing'), state = {state:String})
    AND ({severity:String} = '' OR severity = {severity:String})
    AND ({host:String} = '' OR labels['host'] = {host:String})
    AND ({job_id:String} = '' OR labels['job_id'] = {job_id:String})
    AND ({search:String} = ''
        OR positionCaseInsensitiveUTF8(concat(rule, '\n', summary, '\n', arrayStringConcat(mapValues(labels), '\n')), {search:String}) > 0)
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    started_at DESC, alert_id, last_at DESC
LIMIT 1 BY alert_id
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
