-- reports: one row a report and target, with what was last said of it; the row with an empty `target` is the report itself,
-- whether it was rendered.
CREATE OR REPLACE VIEW {{ name("reports") }} {{ on_cluster }} AS
SELECT report_id, target, ts AS last_at, * EXCEPT (report_id, target, ts)
FROM
(
    SELECT * FROM {{ name("report_events") }} AS e
    ORDER BY e.ts DESC
    LIMIT 1 BY e.report_id, e.target
)
ORDER BY period_end DESC, report_id, target;
