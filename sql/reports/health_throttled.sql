-- Which GPUs were held back, and by what? Hours, and minutes in them, in which heat (NVML's bits 0x20, 0x40), a power brake (0x80) or the hardware
-- (0x08) held the clocks down, by the highest of the reasons in each minute where minutes are kept (90 days), else of each hour.
-- A power limit (0x04) is no fault, and not here.
-- @since -  start of the period, a whole hour
-- @until -  its end
-- @limit 2000  how many rows
WITH
    suspect AS
    (
        SELECT w.host AS host, w.gpu AS gpu, w.uuid AS uuid, w.window AS hour, max(w.throttle_reasons_max) AS bits
        FROM gpu_heatmap_1h AS w
        WHERE w.window >= {since:DateTime('UTC')} AND w.window < {until:DateTime('UTC')} AND w.throttle_reasons_max >= 8
        GROUP BY w.host, w.gpu, w.uuid, w.window
        HAVING bitAnd(bits, 0xe8) != 0
    ),
    minutes AS
    (
        SELECT host, gpu, uuid, countIf(bitAnd(bits, 0xe8) != 0) AS held, countIf(bitAnd(bits, 0x60) != 0) AS heat, countIf(bitAnd(bits, 0x80) != 0) AS brake, countIf(bitAnd(bits, 0x08) != 0) AS hardware
        FROM
        (
            SELECT m.host AS host, m.gpu AS gpu, m.uuid AS uuid, m.window AS window, max(m.throttle_reasons_max) AS bits
            FROM gpu_heatmap_1m AS m
            WHERE m.window >= {since:DateTime('UTC')} AND m.window < {until:DateTime('UTC')}
                AND (m.host, m.gpu, m.uuid, toStartOfHour(m.window)) GLOBAL IN (SELECT host, gpu, uuid, hour FROM suspect)
            GROUP BY m.host, m.gpu, m.uuid, m.window
        )
        GROUP BY host, gpu, uuid
    )
SELECT
    hours.host AS host, hours.gpu AS gpu, toString(hours.uuid) AS uuid,
    hours.hours AS held_back_hours,
    nullIf(minutes.held, 0) AS held_back_minutes,
    hours.heat AS heat_hours, hours.brake AS power_brake_hours, hours.hardware AS hardware_hours,
    if(minutes.held = 0, NULL, minutes.heat) AS heat_minutes,
    if(minutes.held = 0, NULL, minutes.brake) AS power_brake_minutes,
    if(minutes.held = 0, NULL, minutes.hardware) AS hardware_minutes,
    hours.first_at AS first_at,
    hours.last_at AS last_at
FROM
(
    SELECT
        host, gpu, uuid, count() AS hours,
        countIf(bitAnd(bits, 0x60) != 0) AS heat, countIf(bitAnd(bits, 0x80) != 0) AS brake, countIf(bitAnd(bits, 0x08) != 0) AS hardware,
        min(hour) AS first_at, max(hour) AS last_at
    FROM suspect
    GROUP BY host, gpu, uuid
) AS hours
GLOBAL LEFT JOIN minutes ON minutes.host = hours.host AND minutes.gpu = hours.gpu AND minutes.uuid = hours.uuid
ORDER BY held_back_hours DESC, host, gpu, uuid
LIMIT {limit:UInt32}
