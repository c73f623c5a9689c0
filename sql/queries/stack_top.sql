-- Which functions took the time? By what was seen in the function itself (`self`), and in it with what it called
-- (`total`; once, however deep it calls itself), with shares of all that was seen.
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
-- @top 100  so many functions
WITH
    seen AS
    (
        SELECT stack, any(if(job_id = '', host, job_id)) AS owner, sum(estimate) AS weight
        FROM {windows:Identifier}
        WHERE ts >= {since:DateTime('UTC')} AND ts < {until:DateTime('UTC')}
            AND ({host:String} = '' OR host = {host:String})
            AND ({job_id:String} = '' OR job_id = {job_id:String})
            AND ({rank:Int64} < 0 OR rank = {rank:Int64})
            AND ({process:String} = '' OR process = {process:String})
            AND ({pid:UInt32} = 0 OR pid = {pid:UInt32})
            AND ({source:String} = '' OR source = {source:String})
            AND unit = {unit:String}
        GROUP BY stack
    ),
    told AS
    (
        SELECT
            stack,
            if({lines:UInt8} = 1, any(kept), arrayMap(frame -> replaceRegexpOne(frame, ':\\d+\\)$', ')'), any(kept))) AS frames
        FROM (SELECT stack, frames AS kept FROM stack_frames WHERE (owner, stack) GLOBAL IN (SELECT owner, stack FROM seen))
        GROUP BY stack
    )
SELECT
    function,
    toUInt64(round(own)) AS self,
    toUInt64(round(within)) AS total,
    round(own / all, 6) AS self_share,
    round(within / all, 6) AS total_share
FROM
(
    -- Each stack has one innermost function, so that what functions have for themselves adds up to all.
    SELECT function, sumIf(weight, function = innermost) AS own, sum(weight) AS within, sum(own) OVER () AS all
    FROM
    (
        SELECT if(empty(told.frames), ['(frames not told)'], told.frames) AS frames, frames[-1] AS innermost, weight
        FROM seen LEFT JOIN told ON told.stack = seen.stack
    )
    ARRAY JOIN arrayDistinct(frames) AS function
    GROUP BY function
)
ORDER BY self DESC, total DESC, function
LIMIT {top:UInt32}
