-- How much of the time was in a function, over time? For each step the time seen in functions whose frame has a text in
-- it, with what they called, and its share of all.
-- py-spy's time is that of threads that run or wait for a CPU (with agent.stacks_idle of all), perf's is CPU time.
-- @function -  a part of `function (file:line)`, as it is written
-- @since -1h  start of the window
-- @until now  end of the window
-- @host ''  of this host alone
-- @job_id ''  of this job alone
-- @rank -1  of this rank alone
-- @process ''  of processes of this name alone
-- @pid 0  of this process alone
-- @source py-spy  perf, import:NAME: of what it took alone; '' adds up all, and a moment that two sampled counts twice
-- @unit microseconds  bytes, count: what other profilers weigh by
-- @windows stack_samples  or stack_hours
-- @step_s 60  seconds of a step
WITH
    seen AS
    (
        SELECT
            toDateTime(intDiv(toUnixTimestamp(toDateTime(ts, 'UTC')), {step_s:UInt32}) * {step_s:UInt32}, 'UTC') AS start,
            stack, any(if(job_id = '', host, job_id)) AS owner, sum(estimate) AS weight
        FROM {windows:Identifier}
        WHERE ts >= {since:DateTime('UTC')} AND ts < {until:DateTime('UTC')}
            AND ({host:String} = '' OR host = {host:String})
            AND ({job_id:String} = '' OR job_id = {job_id:String})
            AND ({rank:Int64} < 0 OR rank = {rank:Int64})
            AND ({process:String} = '' OR process = {process:String})
            AND ({pid:UInt32} = 0 OR pid = {pid:UInt32})
            AND ({source:String} = '' OR source = {source:String})
            AND unit = {unit:String}
        GROUP BY start, stack
    ),
    within AS
    (
        SELECT stack FROM stack_frames
        WHERE (owner, stack) GLOBAL IN (SELECT owner, stack FROM seen)
            AND arrayExists(frame -> position(frame, {function:String}) > 0, frames)
    )
SELECT
    start,
    toUInt64(round(sumIf(weight, stack IN within))) AS value,
    toUInt64(round(sum(weight))) AS all,
    round(sumIf(weight, stack IN within) / sum(weight), 6) AS share
FROM seen
GROUP BY start
ORDER BY start
