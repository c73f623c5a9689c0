-- What changed between two windows, or two jobs? A flame graph as nested rows as in stack_flame, of what was seen later
-- (`value`, `self`) and before (`base`, `base_self`), each with its share of all of its own side.
-- @since -1h  start of the window
-- @until now  end of the window
-- @host ''  of this host alone
-- @job_id ''  of this job alone
-- @rank -1  of this rank alone
-- @process ''  of processes of this name alone
-- @pid 0  of this process alone
-- @source py-spy  perf, import:NAME: of what it took alone; '' adds up all, and a moment that two sampled counts twice
-- @unit microseconds  bytes, count: what other profilers weigh by
-- @lines 1  0: a function is one, whichever of its lines ran
-- @base_since -2h  start of the window before
-- @base_until -1h  end of the window before
-- @base_host ''  of this host alone, before
-- @base_job_id ''  of this job alone, before
-- @windows stack_samples  or stack_hours
-- @base_windows stack_samples  or stack_hours
-- @by ''  host, process, rank, thread: a level of its own below all
-- @least 0.0005  share of both sides below which a function is left out
WITH
    later AS
    (
        SELECT stack, multiIf({by:String} = 'host', host, {by:String} = 'process', process, {by:String} = 'thread', thread, {by:String} = 'rank', if(isNull(rank), 'no rank', concat('rank ', toString(assumeNotNull(rank)))), '') AS part, any(if(job_id = '', host, job_id)) AS owner, sum(estimate) AS weight
        FROM {windows:Identifier}
        WHERE ts >= {since:DateTime('UTC')} AND ts < {until:DateTime('UTC')}
            AND ({host:String} = '' OR host = {host:String})
            AND ({job_id:String} = '' OR job_id = {job_id:String})
            AND ({rank:Int64} < 0 OR rank = {rank:Int64})
            AND ({process:String} = '' OR process = {process:String})
            AND ({pid:UInt32} = 0 OR pid = {pid:UInt32})
            AND ({source:String} = '' OR source = {source:String})
            AND unit = {unit:String}
        GROUP BY stack, part
    ),
    before AS
    (
        SELECT stack, multiIf({by:String} = 'host', host, {by:String} = 'process', process, {by:String} = 'thread', thread, {by:String} = 'rank', if(isNull(rank), 'no rank', concat('rank ', toString(assumeNotNull(rank)))), '') AS part, any(if(job_id = '', host, job_id)) AS owner, sum(estimate) AS weight
        FROM {base_windows:Identifier}
        WHERE ts >= {base_since:DateTime('UTC')} AND ts < {base_until:DateTime('UTC')}
            AND ({base_host:String} = '' OR host = {base_host:String})
            AND ({base_job_id:String} = '' OR job_id = {base_job_id:String})
            AND ({rank:Int64} < 0 OR rank = {rank:Int64})
            AND ({process:String} = '' OR process = {process:String})
            AND ({pid:UInt32} = 0 OR pid = {pid:UInt32})
            AND ({source:String} = '' OR source = {source:String})
            AND unit = {unit:String}
        GROUP BY stack, part
    ),
    seen AS
    (
        SELECT stack, part, any(owner) AS owner, sum(later) AS later, sum(before) AS before
        FROM
        (
            SELECT stack, part, owner, weight AS later, 0. AS before FROM later
            UNION ALL
            SELECT stack, part, owner, 0. AS later, weight AS before FROM before
        )
        GROUP BY stack, part
    ),
    told AS
    (
        SELECT
            stack,
            if({lines:UInt8} = 1, any(kept), arrayMap(frame -> replaceRegexpOne(frame, ':\\d+\\)$', ')'), any(kept))) AS frames
        FROM (SELECT stack, frames AS kept FROM stack_frames WHERE (owner, stack) GLOBAL IN (SELECT owner, stack FROM seen))
        GROUP BY stack
    ),
    named AS -- as in stack_flame
    (
        SELECT stack, arrayCumSum(arrayMap((x, y) -> cityHash64(x, y), frames, arrayEnumerate(frames))) AS below FROM told
    ),
    (SELECT (sum(later), sum(before)) FROM seen) AS totals,
    totals.1 AS total,
    totals.2 AS base_total,
    nodes AS
    (
        SELECT
            any(at) AS depth, any(its.part) AS part, any(its.stack) AS stack,
            sum(its.later) AS later, sumIf(its.later, at = deepest) AS later_self,
            sum(its.before) AS before, sumIf(its.before, at = deepest) AS before_self
        FROM
        (
            SELECT
                stack, part, later, before, cityHash64(part) AS above,
                arrayConcat([0::UInt64], if(part = '', [], [above]), if(empty(named.below), [above + 1], arrayMap(each -> above + each, named.below))) AS path,
                length(path) AS deepest
            FROM seen LEFT JOIN named ON named.stack = seen.stack
        ) AS its
        ARRAY JOIN path AS node, arrayEnumerate(path) AS at
        GROUP BY node
        HAVING (total > 0 AND later >= {least:Float64} * total) OR (base_total > 0 AND before >= {least:Float64} * base_total)
    )
SELECT
    depth - 1 AS level,
    path[-1] AS label,
    toUInt64(round(later)) AS value,
    toUInt64(round(later_self)) AS self,
    toUInt64(round(before)) AS base,
    toUInt64(round(before_self)) AS base_self,
    if(total = 0, 0, round(later / total, 6)) AS share,
    if(base_total = 0, 0, round(before / base_total, 6)) AS base_share
FROM
(
    SELECT
        depth, later, later_self, before, before_self,
        arraySlice(arrayConcat(['all'], if(part = '', [], [part]), if(empty(told.frames), ['(frames not told)'], told.frames)), 1, depth) AS path
    FROM nodes LEFT JOIN told ON told.stack = nodes.stack
)
ORDER BY path
