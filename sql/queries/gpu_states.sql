-- In which state is each GPU? One row a GPU, as fleet_states counts them.
SELECT
    host, gpu, uuid, job_ids[1] AS job_id, status AS state,
    multiIf(status = 'failing', arrayStringConcat(problems, ', '), status = 'gone' AND gpus.why = '', 'silent', gpus.why) AS why
FROM gpu_statuses AS gpus
ORDER BY host, gpu, uuid
