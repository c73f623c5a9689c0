-- How did a metric of GPUs change over time? One row a series, its mean in each step of whole minutes as one array; the
-- series with the highest means first. By fleet, by host (the mean of its GPUs) or by GPU; of all GPUs, of a host's, of
-- one, or of those that a job held, while it ran.
-- @metric gpu_util  SI name of the metric, of a GPU; of several, with commas between
-- @since -6h  start of the window, rounded down to a whole step
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
-- @windows gpu_heatmap_1m  gpu_heatmap_1h when a step is whole hours
-- @by host  fleet, host or gpu
-- @host ''  of this host alone
-- @gpu ''  of this GPU alone: its index or uuid
-- @job_id ''  of this job's GPUs alone, while it ran
-- @top 20  how many series
WITH
    {step_s:UInt32} AS step,
    intDiv(toUnixTimestamp({since:DateTime('UTC')}), step) * step AS first,
    (intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, step) + 1) * step AS last,
    (total, known) -> (
        sum(total) / nullIf(sum(known), 0),
        avgWeightedResample(first, last, step)(if(known = 0, 0, total / known), toFloat64(known), toUInt32(t.window))
    ) AS line,
    grouped AS
    (
        SELECT
            if({by:String} = 'fleet', '', toString(t.host)) AS host,
            if({by:String} = 'gpu', toNullable(t.gpu), NULL) AS gpu,
            if({by:String} = 'gpu', toString(t.uuid), '') AS uuid,
            count() OVER () AS total,
            [
                ({metric:String}, {metric_factor:Float64}, {metric_decimals:UInt8}, line({metric_sum:Identifier}, {metric_count:Identifier}))  -- each metric
            ] AS lines
        FROM {windows:Identifier} AS t
        WHERE t.window >= toDateTime(first, 'UTC') AND t.window < toDateTime(last, 'UTC')
            AND ({host:String} = '' OR t.host = {host:String})
            AND ({gpu:String} = '' OR toString(t.gpu) = {gpu:String} OR t.uuid = {gpu:String})
            AND ({job_id:String} = '' OR (t.host, t.uuid) GLOBAL IN (
                SELECT host, arrayJoin(gpu_uuids_held) FROM job_trees WHERE job_id = {job_id:String}
            ))
            AND ({job_id:String} = '' OR t.window BETWEEN
                (SELECT toStartOfInterval(min(started_at), toIntervalSecond(if({step_s:UInt32} % 3600 = 0, 3600, 60))) FROM job_trees WHERE job_id = {job_id:String})
                AND (SELECT max(last_at) FROM job_trees WHERE job_id = {job_id:String}))
        GROUP BY host, gpu, uuid
    ),
    highest AS
    (
        SELECT host, gpu, uuid, total, place, line.1 AS metric, line.2 AS factor, line.3 AS decimals, line.4.1 AS stored, line.4.2 AS points
        FROM grouped
        ARRAY JOIN lines AS line, arrayEnumerate(lines) AS place
        ORDER BY place, stored DESC NULLS LAST, host, gpu, uuid
        LIMIT {top:UInt32} BY place
    )
SELECT
    metric,
    multiIf(host = '', 'fleet', isNull(gpu), host, concat(host, '/', toString(gpu), if(startsWith(uuid, 'MIG'), concat('/', uuid), ''))) AS key,
    host, gpu, uuid, '' AS job_id, total,
    round(stored * factor, decimals) AS mean,
    arrayMap(x -> if(isNaN(x), NULL, round(x * factor, decimals)), points) AS values
FROM highest
ORDER BY place, stored DESC NULLS LAST, host, gpu, uuid
