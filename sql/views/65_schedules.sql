-- schedules: the schedules of captures that hold, one row each, by what was set last. `set_by` is `scheduler` for one that
-- stands in the scheduler's settings, where alone it can be changed.
CREATE OR REPLACE VIEW {{ name("schedules") }} {{ on_cluster }} AS
SELECT name, ts AS set_at, * EXCEPT (name, ts, action)
FROM
(
    SELECT * FROM {{ name("capture_schedules") }} AS s
    ORDER BY s.ts DESC
    LIMIT 1 BY s.name
)
WHERE action = 'set'
ORDER BY name;
