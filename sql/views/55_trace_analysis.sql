-- What people ask of analysed traces over ranks, captures and weeks. Built on the views of 50_traces.sql alone.
{% set left = ("GLOBAL " if cluster else "") ~ "LEFT JOIN" %}

-- kernel_regressions: one row a kernel, week, workload and GPU model: its mean duration, held against the weeks before.
-- A capture counts once, whatever its number of ranks: the week's figure is the median over its captures of their mean
-- duration, the baseline the median of up to four weeks before it in which the kernel ran. `regressed`: slower than the
-- baseline by more than 5 % and slower than in each of those weeks, two at the least. `regressed_on` are the GPU models
-- on which the same kernel of the same workload did so in that week, of all in `gpu_models`: one of several points to the
-- device or its driver, all of them to the code. `cost_ns` is what its runs in the loaded traces of the week took longer
-- than at the baseline's pace. A kernel whose inputs changed is another amount of work under the same name.
CREATE OR REPLACE VIEW {{ name("kernel_regressions") }} {{ on_cluster }} AS
SELECT
    workload, gpu_model, name, short_name, sort, week, captures, hosts, count, total_ns, mean_ns,
    baseline_ns, baseline_weeks, baseline_max_ns,
    mean_ns / nullIf(baseline_ns, 0) AS slowdown,
    if(baseline_weeks = 0, NULL, (mean_ns - baseline_ns) * count) AS cost_ns,
    cost_ns / 1e9 AS cost_seconds,
    mean_ns / 1e9 AS mean_seconds,
    baseline_ns / 1e9 AS baseline_seconds,
    ifNull(baseline_weeks >= 2 AND mean_ns > 1.05 * baseline_ns AND mean_ns > baseline_max_ns, 0) AS regressed,
    arraySort(groupUniqArray(toString(gpu_model)) OVER same) AS gpu_models,
    arraySort(groupUniqArrayIf(toString(gpu_model), regressed) OVER same) AS regressed_on
FROM
(
    SELECT
        *,
        if(baseline_weeks = 0, NULL, quantileExactInclusive(0.5)(mean_ns) OVER before) AS baseline_ns,
        if(baseline_weeks = 0, NULL, max(mean_ns) OVER before) AS baseline_max_ns,
        count() OVER before AS baseline_weeks
    FROM
    (
        SELECT
            workload, gpu_model, name,
            any(of_capture.short_name) AS short_name,
            any(of_capture.sort) AS sort,
            week,
            count() AS captures,
            arraySort(groupUniqArrayArray(of_capture.hosts)) AS hosts,
            sum(of_capture.count) AS count,
            sum(of_capture.total_ns) AS total_ns,
            quantileExactInclusive(0.5)(of_capture.total_ns / of_capture.count) AS mean_ns
        FROM
        (
            SELECT
                workload, gpu_model, name,
                toMonday(min(kernel.captured_at)) AS week,
                any(kernel.short_name) AS short_name,
                any(kernel.sort) AS sort,
                groupUniqArrayIf(toString(kernel.host), kernel.host != '') AS hosts,
                sum(kernel.count) AS count,
                sum(kernel.total_ns) AS total_ns
            FROM {{ name("trace_kernels") }} AS kernel
            WHERE kernel.sort IN ('compute', 'comm') AND kernel.count > 0
            GROUP BY capture_id, workload, gpu_model, name
        ) AS of_capture
        GROUP BY workload, gpu_model, name, week
    )
    WINDOW before AS (PARTITION BY workload, gpu_model, name ORDER BY week ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING)
)
WINDOW same AS (PARTITION BY workload, name, week);

-- stragglers: one row a rank of a capture for which the others waited. It surely came last to `last` of `of` collectives
-- (later than the clocks may be wrong by): `late_ns` later than the median of the others, `cost_ns` later than the last
-- but one, which is what the job gains if this rank alone keeps up. `causes` divides `late_ns` by what it did longer than
-- the others since they last met, `cause` is the greatest. `waited_ns` is what it itself waited for others.
-- `compute_over_median` is its computation over that of the median rank of the capture. Ranks that were loaded apart from
-- the others have not been held against them: load a capture as a whole.
CREATE OR REPLACE VIEW {{ name("stragglers") }} {{ on_cluster }} AS
SELECT
    late.capture_id AS capture_id,
    ranks.job_id AS job_id,
    ranks.workload AS workload,
    ranks.captured_at AS captured_at,
    late.rank AS rank,
    ranks.host AS host,
    ranks.gpu_model AS gpu_model,
    late.last AS last,
    late.of AS of,
    late.late_ns AS late_ns,
    late.cost_ns AS cost_ns,
    late.worst_ns AS worst_ns,
    late.waited_ns AS waited_ns,
    late.causes AS causes,
    if(arrayMax(mapValues(late.causes)) > 0, arraySort((name, ns) -> -ns, mapKeys(late.causes), mapValues(late.causes))[1], '') AS cause,
    ranks.compute_ns / nullIf(ranks.median_compute_ns, 0) AS compute_over_median,
    late.late_ns / 1e9 AS late_seconds,
    late.cost_ns / 1e9 AS cost_seconds,
    late.waited_ns / 1e9 AS waited_seconds
FROM
(
    SELECT
        capture_id, process,
        any(met.rank) AS rank,
        countIf(met.last) AS last,
        countIf(met.meeting IS NOT NULL) AS of,
        sumIf(ifNull(met.late_ns, 0), met.last) AS late_ns,
        sumIf(ifNull(met.cost_ns, 0), met.last) AS cost_ns,
        maxIf(ifNull(met.late_ns, 0), met.last) AS worst_ns,
        sum(ifNull(met.wait_ns, 0)) AS waited_ns,
        sumMap(CAST(met.late_by, 'Map(String, Int64)')) AS causes
    FROM {{ name("trace_collectives") }} AS met
    GROUP BY capture_id, process
    HAVING last > 0
) AS late
{{ left }}
(
    SELECT
        capture_id, process, job_id, workload, captured_at, host, gpu_model, compute_ns,
        quantileExactInclusive(0.5)(compute_ns) OVER (PARTITION BY capture_id) AS median_compute_ns
    FROM {{ name("trace_ranks") }}
) AS ranks ON ranks.capture_id = late.capture_id AND ranks.process = late.process;

-- capture_summary: one row a capture, over the ranks that are loaded. Shares are of the sum of their spans. `ranks_missing`
-- are those below `world_size` that are not there (the first hundred). `slowest_rank` has the longest median step.
-- `top_kernel` took most GPU time over all ranks. `straggler` is the rank whose lateness cost the others most, with that
-- cost. `findings` are the ranks' findings, the costliest first: id, its text on the rank where it costs most, on how many
-- ranks, and that cost.
CREATE OR REPLACE VIEW {{ name("capture_summary") }} {{ on_cluster }} AS
SELECT
    whole.capture_id AS capture_id,
    whole.* EXCEPT (capture_id, gpu_ns),
    said.findings AS findings,
    top.name AS top_kernel,
    top.total_ns / nullIf(whole.gpu_ns, 0) AS top_kernel_share,
    late.rank AS straggler,
    late.cost_ns AS straggler_cost_ns,
    late.cause AS straggler_cause,
    whole.step_p50_ns / 1e9 AS step_p50_seconds,
    whole.span_ns / 1e9 AS span_seconds,
    late.cost_ns / 1e9 AS straggler_cost_seconds
FROM
(
    SELECT
        capture_id,
        any(each.job_id) AS job_id,
        any(each.workload) AS workload,
        min(each.captured_at) AS captured_at,
        max(each.loaded_at) AS loaded_at,
        arraySort(groupUniqArrayIf(toString(each.host), each.host != '')) AS hosts,
        arraySort(groupUniqArrayIf(toString(each.gpu_model), each.gpu_model != '')) AS gpu_models,
        count() AS ranks,
        max(each.world_size) AS world_size,
        arraySlice(arrayFilter(rank -> NOT has(groupUniqArray(each.rank) AS there, rank), range(ifNull(world_size, 0))), 1, 100) AS ranks_missing,
        sum(each.gpu_events) AS gpu_events,
        max(each.span_ns) AS span_ns,
{% for part in ["busy", "idle", "compute", "comm", "mem", "exposed_comm", "exposed_mem"] %}
        sum(each.{{ part }}_ns) / nullIf(sum(each.span_ns), 0) AS {{ part }}_share,
{% endfor %}
        max(each.steps) AS steps,
        toInt64(quantileExact(0.5)(each.step_p50_ns)) AS step_p50_ns,
        argMax(each.rank, each.step_p50_ns) AS slowest_rank,
        max(each.step_p50_ns) / nullIf(min(each.step_p50_ns), 0) AS slowest_over_fastest,
        sum(each.mfu * each.span_ns) / nullIf(sumIf(each.span_ns, each.mfu IS NOT NULL), 0) AS mfu,
        max(each.memory_peak_bytes) AS memory_peak_bytes,
        sum(each.total_ns) AS gpu_ns
    FROM {{ name("trace_ranks") }} AS each
    GROUP BY capture_id
) AS whole
{{ left }}
(
    SELECT capture_id, argMax(name, total) AS name, max(total) AS total_ns
    FROM (SELECT capture_id, name, sum(kernel.total_ns) AS total FROM {{ name("trace_kernels") }} AS kernel GROUP BY capture_id, name)
    GROUP BY capture_id
) AS top ON top.capture_id = whole.capture_id
{{ left }}
(
    SELECT capture_id, toNullable(argMax(one.rank, one.cost_ns)) AS rank, argMax(one.cause, one.cost_ns) AS cause, toNullable(max(one.cost_ns)) AS cost_ns
    FROM {{ name("stragglers") }} AS one
    GROUP BY capture_id
) AS late ON late.capture_id = whole.capture_id
{{ left }}
(
    SELECT
        capture_id,
        arraySlice(arrayReverseSort(found -> found.cost_ns, groupArray(CAST(
            tuple(id, text, value, unit, ranks, cost_ns),
            'Tuple(id String, text String, value Float64, unit String, ranks UInt64, cost_ns Int64)'
        ))), 1, 20) AS findings
    FROM
    (
        SELECT
            capture_id,
            found.id AS id,
            argMax(found.text, found.cost_ns) AS text,
            argMax(found.value, found.cost_ns) AS value,
            argMax(found.unit, found.cost_ns) AS unit,
            count() AS ranks,
            max(found.cost_ns) AS cost_ns
        FROM {{ name("trace_ranks") }}
        ARRAY JOIN findings AS found
        GROUP BY capture_id, id
    )
    GROUP BY capture_id
) AS said ON said.capture_id = whole.capture_id;
