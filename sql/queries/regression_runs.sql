-- Which runs are there of jobs that ran in the window, and what were they like? Runs of one user and name, the earliest
-- first; `asked` are those of the window, the others those that they can be held against. Models and drivers are those of
-- the GPUs that a run held, as they are known now.
-- @since -7d  start of the window
-- @until now  end of the window
-- @past -35d  no run that began before
-- @job ''  of jobs of this name alone
-- @user ''  of this user alone
-- @job_id ''  of jobs of the same user and name as this one alone
WITH
    told AS
    (
        SELECT
            jobs.job_id AS job_id, jobs.user AS user, jobs.name AS name, jobs.started_at AS started_at, jobs.last_seen_at AS last_seen_at,
            jobs.hosts AS hosts, jobs.gpus AS gpus, jobs.gpu_uuids AS gpu_uuids, jobs.world_size AS world_size, jobs.command AS command,
            jobs.labels['image'] AS image,
            jobs.last_seen_at >= {since:DateTime('UTC')} AND ({job_id:String} = '' OR jobs.job_id = {job_id:String}) AS asked
        FROM jobs
        WHERE jobs.started_at >= {past:DateTime('UTC')} AND jobs.started_at < {until:DateTime('UTC')} AND jobs.name != ''
            AND ({job:String} = '' OR jobs.name = {job:String})
            AND ({user:String} = '' OR jobs.user = {user:String})
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
    told.job_id AS job_id, told.user AS user, told.name AS name, told.started_at AS started_at, told.last_seen_at AS last_seen_at,
    told.hosts AS hosts, told.gpus AS gpus, told.world_size AS world_size, told.command AS command, told.image AS image, told.asked AS asked,
    held.models AS models, held.drivers AS drivers
FROM told
LEFT JOIN held ON held.job_id = told.job_id
WHERE (told.user, told.name) IN (SELECT asked_of.user, asked_of.name FROM told AS asked_of WHERE asked_of.asked)
ORDER BY user, name, started_at, job_id
