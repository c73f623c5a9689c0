-- alerts_now: one row an alert, which is one episode of one subject of one rule, as it stands by what was last said of it.
-- `silenced_by` and `acknowledged_by` are those of its last state.
CREATE OR REPLACE VIEW {{ name("alerts_now") }} {{ on_cluster }} AS
SELECT alert_id, ts AS last_at, * EXCEPT (alert_id, ts)
FROM
(
    SELECT * FROM {{ name("alerts") }} AS a
    ORDER BY a.ts DESC
    LIMIT 1 BY a.alert_id
)
ORDER BY started_at DESC, alert_id;

-- silences: one row a silence that was not ended by hand; it holds from `starts_at` to `ends_at`.
CREATE OR REPLACE VIEW {{ name("silences") }} {{ on_cluster }} AS
SELECT
    subject AS silence_id, ts AS said_at, said_by, matchers,
    assumeNotNull(starts_at) AS starts_at, assumeNotNull(ends_at) AS ends_at, comment
FROM
(
    SELECT * FROM {{ name("alert_words") }} AS w
    WHERE w.action IN ('silence', 'unsilence')
    ORDER BY w.ts DESC
    LIMIT 1 BY w.subject
)
WHERE action = 'silence'
ORDER BY ends_at, silence_id;
