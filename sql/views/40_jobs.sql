-- jobs: one row a job, over all its hosts and ranks. `state`: running; ended; lost (a tree has not said that it ended, and
-- nothing of the job has been heard of for a minute: its host or agent is gone, and may come back). What has been lost for
-- ten minutes has ended, when it was last heard of; `hosts_lost` are those whose last word was not that it ended.
-- `account` is who is charged, else the team, queue or namespace that it runs for, as its labels tell.
-- `cpu_cores`, `rss_bytes`, `processes` and `gpu_memory_bytes` are the latest known, summed over its trees; what an ended
-- job used in all is in `cpu_core_seconds`, `read_bytes`, `written_bytes` and `rss_bytes_max`.
CREATE OR REPLACE VIEW {{ name("jobs") }} {{ on_cluster }} AS
SELECT
    job_id,
    argMax(tree.name, tree.last_at) AS name,
    argMax(tree.command, tree.last_at) AS command,
    argMax(tree.user, tree.last_at) AS user,
    argMax(tree.scheduler, tree.last_at) AS scheduler,
    multiIf(countIf(tree.state = 'running') > 0, 'running', countIf(tree.state = 'lost') > 0, 'lost', 'ended') AS state,
    arraySort(groupUniqArray(toString(tree.host))) AS hosts,
    arraySort(groupUniqArrayIf(toString(tree.host), tree.state = 'lost' OR tree.unsaid)) AS hosts_lost,
    arraySort(groupUniqArray(tree.pid)) AS pids,
    arraySort(groupUniqArrayArray(tree.gpu_uuids)) AS gpu_uuids,
    length(gpu_uuids) AS gpus,
    max(tree.world_size) AS world_size,
    min(tree.started_at) AS started_at,
    if(state = 'ended', max(tree.ended_at), NULL) AS ended_at,
    max(tree.last_at) AS last_seen_at,
    dateDiff('millisecond', started_at, last_seen_at) / 1000 AS duration_s,
    sum(tree.use.processes) AS processes,
    sum(tree.use.cpu_cores_milli) / 1000 AS cpu_cores,
    sum(toUInt64(tree.use.rss_mebibytes) * 1048576) AS rss_bytes,
    sum(toUInt64(tree.use.gpu_memory_mebibytes) * 1048576) AS gpu_memory_bytes,
    sum(toUInt64(tree.rss_mebibytes_max) * 1048576) AS rss_bytes_max,
    sum(tree.cpu_core_seconds) AS cpu_core_seconds,
    sum(tree.read_bytes) AS read_bytes,
    sum(tree.written_bytes) AS written_bytes,
    argMax(tree.labels, (notEmpty(tree.labels), tree.last_at)) AS labels,
    argMax(tree.tree_id, tree.last_at) AS tree_id,
    arraySort(groupUniqArrayArray(tree.ranks)) AS ranks,
    coalesce({% for key in ["account", "team", "queue", "namespace"] %}nullIf(labels['{{ key }}'], ''), {% endfor %}'') AS account
FROM {{ name("job_processes") }} AS tree
GROUP BY job_id;

-- job_efficiency: what each job did with its GPUs, from its hours. Ratios are means over the GPU time in which they are
-- known; several jobs on one GPU share its time. `wasted_gpu_hours` is the time its GPUs were known to be below 5 %.
CREATE OR REPLACE VIEW {{ name("job_efficiency") }} {{ on_cluster }} AS
SELECT
    used.job_id AS job_id,
    jobs.name AS name,
    jobs.user AS user,
    jobs.state AS state,
    jobs.hosts AS hosts,
    jobs.gpus AS gpus,
    jobs.started_at AS started_at,
    jobs.ended_at AS ended_at,
    used.gpu_hours AS gpu_hours,
    used.wasted_gpu_hours AS wasted_gpu_hours,
    used.wasted_gpu_hours / nullIf(used.gpu_hours, 0) AS wasted,
    used.gpu_util AS gpu_util,
    used.sm_active AS sm_active,
    used.tensor_active AS tensor_active,
    used.dram_active AS dram_active,
    used.power_watts AS power_watts,
    used.energy_joules AS energy_joules,
    used.fb_used_bytes_max AS fb_used_bytes_max,
    used.cpu_cores AS cpu_cores
FROM
(
    SELECT
        job_id,
        sum(w.gpu_seconds) / 3600 AS gpu_hours,
        sum(w.idle_seconds) / 3600 AS wasted_gpu_hours,
{% for ratio in ["gpu_util", "sm_active", "tensor_active", "dram_active"] %}
        sum(w.{{ ratio }}_seconds) / nullIf(sum(w.{{ ratio }}_known_seconds), 0) AS {{ ratio }},
{% endfor %}
        sum(w.energy_joules) / nullIf(sum(w.power_known_seconds), 0) AS power_watts,
        sum(w.energy_joules) AS energy_joules,
        max(w.fb_used_bytes_max) AS fb_used_bytes_max,
        sum(w.cpu_core_seconds) / nullIf(sum(w.cpu_known_seconds), 0) AS cpu_cores
    FROM {{ name("job_windows_1h") }} AS w
    GROUP BY job_id
) AS used
LEFT JOIN {{ name("jobs") }} AS jobs ON jobs.job_id = used.job_id;

-- idle_gpus: one row a GPU that is there and has been below 5 % for half a minute or longer. `job_id` is the job that
-- holds it, empty when nobody does; all of them are in `job_ids`.
CREATE OR REPLACE VIEW {{ name("idle_gpus") }} {{ on_cluster }} AS
SELECT
    gpus.host AS host,
    gpus.gpu AS gpu,
    gpus.uuid AS uuid,
    gpus.model AS model,
    gpus.job_ids[1] AS job_id,
    gpus.job_ids AS job_ids,
    holder.name AS job_name,
    holder.user AS user,
    assumeNotNull(gpus.idle_since) AS idle_since,
    dateDiff('millisecond', idle_since, gpus.last_seen_at) / 1000 AS idle_s,
    gpus.gpu_util AS gpu_util,
    gpus.power_watts AS power_watts,
    gpus.fb_used_bytes AS fb_used_bytes
FROM {{ name("gpus") }} AS gpus
LEFT JOIN
(
    SELECT job_id, any(job_trees.name) AS name, any(job_trees.user) AS user FROM {{ name("job_trees") }} AS job_trees GROUP BY job_id
) AS holder ON holder.job_id = gpus.job_ids[1]
WHERE gpus.state = 'ok' AND gpus.idle_since IS NOT NULL AND dateDiff('millisecond', gpus.idle_since, gpus.last_seen_at) >= 30000;
