-- Which captures were asked for, and what came of each? The view captures, a page of it, with what was asked for.
-- @since -30d  start of the window, by when they were asked for
-- @until now  end of the window
-- @capture_id ''  this one alone
-- @job_id ''  of this job alone
-- @host ''  of this host alone
-- @state ''  requested, running, ended or lost alone
-- @requested_by ''  asked for by them alone
-- @search ''  in id, name, job, who asked, and why
-- @most 100000  of the latest so many, by when they were asked for: what comes of a few is known sooner than of all
-- @sort requested_at  a column to sort by
-- @descending 1  0: the lowest first
-- @limit 100  how many rows
-- @offset 0  after so many
WITH meant AS
(
    SELECT r.capture_id AS capture_id, min(r.ts) AS at
    FROM capture_requests AS r
    WHERE r.action = 'start' AND r.ts >= {since:DateTime('UTC')} AND r.ts < {until:DateTime('UTC')} + INTERVAL 1 SECOND
        AND ({capture_id:String} = '' OR r.capture_id = {capture_id:String})
        AND ({job_id:String} = '' OR r.job_id IN ('', {job_id:String}))
        AND ({requested_by:String} = '' OR r.requested_by = {requested_by:String})
    GROUP BY r.capture_id
)
SELECT
    captures.capture_id AS capture_id, name, requested_by, requested_at, state, reason, why, job_id, mode, begun_at, ended_at,
    rounds, hosts, processes, captured, analysed, failed, hosts_failed, clocks_off, bytes, duration_ms, iterations,
    asked.what.1 AS count, asked.what.2 AS interval_s, asked.what.3 AS shapes, asked.what.4 AS memory, asked.what.5 AS stacks,
    asked.what.6 AS flops, asked.what.7 AS modules, asked.what.8 AS asked_hosts, asked.what.9 AS pids, asked.what.10 AS condition,
    asked.what.11 AS max_count, asked.what.12 AS max_bytes, asked.what.13 AS max_seconds,
    (SELECT count() FROM meant) AS meant
FROM captures
LEFT JOIN
(
    SELECT
        r.capture_id AS capture_id,
        argMin(
            (r.count, r.interval_s, r.shapes, r.memory, r.stacks, r.flops, r.modules, r.hosts, r.pids, r.where, r.max_count, r.max_bytes, r.max_seconds),
            r.ts
        ) AS what
    FROM capture_requests AS r
    WHERE r.action = 'start'
    GROUP BY r.capture_id
) AS asked ON asked.capture_id = captures.capture_id
WHERE captures.capture_id IN (SELECT capture_id FROM meant ORDER BY at DESC, capture_id LIMIT {most:UInt32})
    AND ({capture_id:String} = '' OR captures.capture_id = {capture_id:String})
    AND ({job_id:String} = '' OR job_id = {job_id:String})
    AND ({host:String} = '' OR has(hosts, {host:String}))
    AND ({state:String} = '' OR state = {state:String})
    AND ({requested_by:String} = '' OR requested_by = {requested_by:String})
    AND ({search:String} = ''
        OR positionCaseInsensitiveUTF8(concat(captures.capture_id, '\n', name, '\n', job_id, '\n', requested_by, '\n', why), {search:String}) > 0)
ORDER BY
    if({descending:UInt8} = 1, NULL, {sort:Identifier}) ASC NULLS LAST,
    if({descending:UInt8} = 1, {sort:Identifier}, NULL) DESC NULLS LAST,
    capture_id
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
SETTINGS exact_rows_before_limit = 1
