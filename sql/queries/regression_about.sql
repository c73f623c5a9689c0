-- What were the runs of a job like? Where each ran, with what, as what, by the command that began it. Models and drivers are
-- those of the GPUs that it held, as they are known now.
-- @job -  name of the jobs
-- @user -  whose they are
-- @past -35d  no run that began before
-- @until now  end of the window
WITH
    told AS
    (
        SELECT
            jobs.job_id AS job_id, jobs.hosts AS hosts, jobs.gpus AS gpus, jobs.gpu_uuids AS gpu_uuids, jobs.world_size AS world_size,
            jobs.command AS command, jobs.labels['image'] AS image
        FROM jobs
        WHERE jobs.name = {job:String} AND jobs.user = {user:String} AND jobs.started_at >= {past:DateTime('UTC')}
            AND jobs.started_at < {until:DateTime('UTC')}
            AND jobs.job_id GLOBAL IN (SELECT t.job_id FROM job_trees AS t WHERE t.name = {job:String} AND t.last_at >= {past:DateTime('UTC')})
    ),
    held AS
    (
        SELECT
            one.job_id AS job_id,
            arraySort(groupUniqArrayIf(known.model, known.model != '')) AS models,
            arraySort(groupUniqArrayIf(known.driver, known.driver != '')) AS drivers
        FROM (SELECT told.job_id AS job_id, arrayJoin(told.gpu_uuids) AS uuid FROM told) AS one
        INNER JOIN
        (
            SELECT gpus.uuid AS uuid, any(toString(gpus.model)) AS model, any(about.driver) AS driver
            FROM gpus
            LEFT JOIN (SELECT s.uuid AS uuid, any(toString(s.driver_version)) AS driver FROM gpu_sources AS s GROUP BY s.uuid) AS about
                ON about.uuid = gpus.uuid
            GROUP BY gpus.uuid
        ) AS known ON known.uuid = one.uuid
        GROUP BY one.job_id
    )
SELECT
    told.job_id AS job_id, told.hosts AS hosts, told.gpus AS gpus, told.world_size AS world_size, told.command AS command, told.image AS image,
    held.models AS models, held.drivers AS drivers
FROM told
LEFT JOIN held ON held.job_id = told.job_id
ORDER BY job_id
