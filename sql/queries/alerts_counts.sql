-- How many alerts are open? By severity, of those that fire and nobody takes care of; and of the rest how many.
-- @host ''  about this host alone
-- @job_id ''  about this job alone
SELECT
    countIf(state = 'firing' AND heard AND severity = 'critical') AS critical,
    countIf(state = 'firing' AND heard AND severity = 'warning') AS warning,
    countIf(state = 'firing' AND heard AND severity = 'info') AS info,
    countIf(state = 'firing' AND NOT heard) AS handled,
    countIf(state = 'pending') AS pending
FROM
(
    SELECT
        a.alert_id AS alert_id, argMax(a.state, a.ts) AS state, argMax(a.severity, a.ts) AS severity,
        argMax(a.silenced_by, a.ts) = ''
            AND alert_id GLOBAL NOT IN (
                SELECT w.subject FROM alert_words AS w GROUP BY w.subject HAVING argMax(w.action, w.ts) = 'acknowledge'
            ) AS heard
    FROM alerts AS a
    WHERE ({host:String} = '' OR a.labels['host'] = {host:String})
        AND ({job_id:String} = '' OR a.labels['job_id'] = {job_id:String})
    GROUP BY a.alert_id
)
