-- Where did the time go? A flame graph as nested rows, depth first: `level` (0 is all), `label`, and how much was
-- seen in a function with what it called (`value`) and in itself (`self`), scaled from what was sampled to the whole time.
-- Grafana's flame graph panel takes it as it is. What is less than `least` of all is left out.
-- py-spy's time is that of threads that run or wait for a CPU (with agent.stacks_idle of all), perf's is CPU time.
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
-- @windows stack_samples  or stack_hours
-- @by ''  host, process, rank, thread: a level of its own below all
-- @least 0.0005  share of all below which a function is left out
WITH
    seen AS
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
    told AS
    (
        SELECT
            stack,
            if({lines:UInt8} = 1, any(kept), arrayMap(frame -> replaceRegexpOne(frame, ':\\d+\\)$', ')'), any(kept))) AS frames
        FROM (SELECT stack, frames AS kept FROM stack_frames WHERE (owner, stack) GLOBAL IN (SELECT owner, stack FROM seen))
        GROUP BY stack
    ),
    -- A node of the graph is its path. As a path it is named by a sum of hashes of each frame with its place, once for each
    -- stack, so that no path is written out but of those that are shown.
    named AS
    (
        SELECT stack, arrayCumSum(arrayMap((x, y) -> cityHash64(x, y), frames, arrayEnumerate(frames))) AS below FROM told
    ),
    nodes AS
    (
        SELECT
            any(at) AS depth, any(its.part) AS part, any(its.stack) AS stack,
            sum(its.weight) AS value, sumIf(its.weight, at = deepest) AS self
        FROM
        (
            SELECT
                stack, part, weight, cityHash64(part) AS above,
                arrayConcat([0::UInt64], if(part = '', [], [above]), if(empty(named.below), [above + 1], arrayMap(each -> above + each, named.below))) AS path,
                length(path) AS deepest
            FROM seen LEFT JOIN named ON named.stack = seen.stack
        ) AS its
        ARRAY JOIN path AS node, arrayEnumerate(path) AS at
        GROUP BY node
        HAVING value >= {least:Float64} * (SELECT sum(weight) FROM seen)
    )
SELECT depth - 1 AS level, path[-1] AS label, toUInt64(round(value)) AS value, toUInt64(round(self)) AS self
FROM
(
    SELECT
        depth, value, self,
        arraySlice(arrayConcat(['all'], if(part = '', [], [part]), if(empty(told.frames), ['(frames not told)'], told.frames)), 1, depth) AS path
    FROM nodes LEFT JOIN told ON told.stack = nodes.stack
)
ORDER BY path
