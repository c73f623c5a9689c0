-- In which state is each GPU? One row a GPU, as fleet_states counts them.
SELECT
    gpus.host AS host, gpus.gpu AS gpu, gpus.uuid AS uuid, gpus.job_ids[1] AS job_id,
    multiIf(
        gpus.state != 'ok', 'gone',
        notEmpty(xids), 'failing',
        isNotNull(gpus.idle_since), 'idle',
        'busy'
    ) AS state,
    multiIf(state = 'failing', concat('XID ', arrayStringConcat(xids, ', ')), state = 'gone' AND gpus.why = '', 'silent', gpus.why) AS why
FROM gpus
LEFT JOIN
(
    SELECT host, uuid, groupUniqArray(code) AS xids FROM gpu_xids WHERE isNull(cleared_at) GROUP BY host, uuid
) AS standing ON standing.host = gpus.host AND standing.uuid = gpus.uuid
ORDER BY host, gpu, uuid
