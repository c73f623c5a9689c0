-- Which jobs end within minutes, again and again? Runs of one name and user that ended soon after they had begun: a crash that a queue repeats.
-- @since -7d  runs that began since then
-- @seconds 300  shorter than so long
-- @runs 2  at least so many
SELECT
    name, user,
    count() AS runs,
    sum(gpus) AS gpus,
    min(duration_s) AS shortest_s,
    max(duration_s) AS longest_s,
    min(started_at) AS first_started_at,
    max(jobs.ended_at) AS last_ended_at,
    argMax(job_id, started_at) AS last_job_id
FROM jobs
WHERE state = 'ended' AND started_at >= {since:DateTime('UTC')} AND duration_s < {seconds:Float64}
GROUP BY name, user
HAVING runs >= {runs:UInt32}
ORDER BY runs DESC, name, user
