-- How many GPUs are busy, idle, failing and gone? Idle is below 5 %; failing: an XID stands; gone: lost, or nothing has
-- been heard of it. Which those are is in gpus_listed.
SELECT
    countIf(status = 'busy') AS busy,
    countIf(status = 'idle') AS idle,
    countIf(status = 'failing') AS failing,
    countIf(status = 'gone') AS gone,
    count() AS total
FROM
(
    SELECT
        multiIf(
            gpus.state != 'ok', 'gone',
            notEmpty(xids), 'failing',
            isNotNull(gpus.idle_since), 'idle',
            'busy'
        ) AS status
    FROM gpus
    LEFT JOIN
    (
        SELECT host, uuid, groupUniqArray(code) AS xids FROM gpu_xids WHERE isNull(cleared_at) GROUP BY host, uuid
    ) AS standing ON standing.host = gpus.host AND standing.uuid = gpus.uuid
)
