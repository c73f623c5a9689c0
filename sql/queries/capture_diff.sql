-- What of two captures took longer in the later one? Their kernels held against each other: what came, went, got slower (each call) or more (calls); per step and rank where both have steps.
-- @capture_id -  the later capture
-- @base -  the earlier one
-- @search ''  part of the kernel's name
-- @status ''  came, went, slower, faster, more, fewer or same alone
-- @sort changed_seconds  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 100  how many kernels, the largest change first
-- @offset 0  after so many
SELECT
    kernel, sort,
    multiIf(
        before_count = 0, 'came', after_count = 0, 'went',
        greatest(abs(by_number), abs(by_duration)) <= 0.02 * before, 'same',
        abs(by_duration) >= abs(by_number), if(by_duration > 0, 'slower', 'faster'),
        by_number > 0, 'more', 'fewer'
    ) AS status,
    before_count, after_count,
    before / 1e9 AS before_seconds,
    after / 1e9 AS after_seconds,
    change / 1e9 AS change_seconds,
    abs(change) / 1e9 AS changed_seconds,
    by_number / 1e9 AS by_number_seconds,
    by_duration / 1e9 AS by_duration_seconds,
    before_mean_seconds, after_mean_seconds, operator, name
FROM
(
    SELECT
        name,
        any(trace_kernels.short_name) AS kernel,
        any(trace_kernels.sort) AS sort,
        argMax(operator, trace_kernels.total_ns) AS operator,
        any(units.before) AS before_units,
        any(units.after) AS after_units,
        sumIf(trace_kernels.count, capture_id = {base:String}) AS before_count,
        sumIf(trace_kernels.count, capture_id = {capture_id:String}) AS after_count,
        sumIf(trace_kernels.total_ns, capture_id = {base:String}) AS before_ns,
        sumIf(trace_kernels.total_ns, capture_id = {capture_id:String}) AS after_ns,
        before_ns / nullIf(before_count, 0) / 1e9 AS before_mean_seconds,
        after_ns / nullIf(after_count, 0) / 1e9 AS after_mean_seconds,
        before_ns / before_units AS before,
        after_ns / after_units AS after,
        after - before AS change,
        if(before_count = 0 OR after_count = 0, change, (after_count / after_units - before_count / before_units) * before_ns / before_count) AS by_number,
        change - by_number AS by_duration
    FROM trace_kernels
    CROSS JOIN
    (
        SELECT
            min(trace_ranks.steps) > 0 AS by_step,
            if(by_step, sumIf(trace_ranks.steps, capture_id = {base:String}), 1) AS before,
            if(by_step, sumIf(trace_ranks.steps, capture_id = {capture_id:String}), 1) AS after
        FROM trace_ranks
        WHERE capture_id IN ({capture_id:String}, {base:String})
    ) AS units
    WHERE capture_id IN ({capture_id:String}, {base:String})
    GROUP BY name
)
WHERE ({status:String} = '' OR status = {status:String}) AND ({search:String} = '' OR positionCaseInsensitive(name, {search:String}) > 0)
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    name
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
