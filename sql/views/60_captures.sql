-- Captures, by what schedulers and agents say of them (capture_requests, capture_commands, capture_events).
{% set left = ("GLOBAL " if cluster else "") ~ "LEFT JOIN" %}

-- capture_ranks: one row a process of a round of a capture (`sequence`), and one a host (`pid` NULL) where none could be
-- asked. `state`: requested, seen, accepted, started, then failed or cancelled, or captured and analysed; a trace counts
-- more than a word before it that there will be none. `reason` and `why` say what is wrong; of `analysed` with a reason
-- the analysis failed. `clock_skew_ms`: by how much the host's clock is ahead of the scheduler's.
CREATE OR REPLACE VIEW {{ name("capture_ranks") }} {{ on_cluster }} AS
SELECT
    said.capture_id AS capture_id,
    said.sequence AS sequence,
    said.host AS host,
    said.pid AS pid,
    said.rank AS rank,
    said.job_id AS job_id,
    said.last.1 AS state,
    said.last.2 AS reason,
    {# Of an analysed one what its trace said as well. #}
    if(said.last.1 = 'analysed' AND said.trace.8 NOT IN ('', said.last.3), concat(said.trace.8, '; ', said.last.3), said.last.3) AS why,
    said.start_at AS start_at,
    said.trace.1 AS traced_from,
    said.trace.2 AS traced_until,
    said.trace.3 AS url,
    said.trace.4 AS bytes,
    said.trace.5 AS raw_bytes,
    said.trace.6 AS sha256,
    said.trace.7 AS slowdown_permille,
    clocks.clock_skew_ms AS clock_skew_ms,
    clocks.reason = 'clock_skew' AS clock_skewed,
    said.first_at AS first_at,
    said.last_at AS last_at
FROM
(
    SELECT
        capture_id, sequence, host, pid,
        max(e.rank) AS rank,
        max(e.job_id) AS job_id,
        {# The first word of the last state: a final one stands. #}
        argMax((e.state, e.reason, e.why), (indexOf(['requested', 'seen', 'accepted', 'started', 'cancelled', 'failed', 'captured', 'analysed'], e.state), e.state = 'analysed' AND e.reason = '', -toUnixTimestamp64Milli(e.ts))) AS last,
        max(e.start_at) AS start_at,
        argMax((e.traced_from, e.traced_until, e.url, e.bytes, e.raw_bytes, e.sha256, e.slowdown_permille, e.why), (e.state = 'captured', e.ts)) AS trace,
        min(e.ts) AS first_at,
        max(e.ts) AS last_at
    FROM {{ name("capture_events") }} AS e
    WHERE e.sequence > 0 AND e.host != ''
    GROUP BY capture_id, sequence, host, pid
    HAVING pid IS NOT NULL OR last.1 IN ('failed', 'cancelled')
) AS said
{{ left }}
(
    SELECT capture_id, sequence, host, argMax(s.clock_skew_ms, s.ts) AS clock_skew_ms, argMax(s.reason, s.ts) AS reason
    FROM {{ name("capture_events") }} AS s
    WHERE s.clock_skew_ms IS NOT NULL AND s.by = 'scheduler'
    GROUP BY capture_id, sequence, host
) AS clocks ON clocks.capture_id = said.capture_id AND clocks.sequence = said.sequence AND clocks.host = said.host;

-- captures: one row a capture. `state`: requested (no scheduler has taken it yet), running, ended, or lost (it should have
-- ended and nobody says so: no scheduler is there, or the bus was lost). `reason` is empty where it ended as it should;
-- `why` says what came of it. `ranks` has the state of each process (`capture_ranks` has more of it): those of all rounds.
CREATE OR REPLACE VIEW {{ name("captures") }} {{ on_cluster }} AS
SELECT
    asked.capture_id AS capture_id,
    asked.first.1 AS name,
    asked.first.2 AS requested_by,
    asked.requested_at AS requested_at,
    multiIf(
        whole.ended_at IS NOT NULL, 'ended',
        greatest(asked.requested_at + INTERVAL 300 SECOND, told.deadline_at + INTERVAL (4000 + asked.first.7) SECOND) < now64(3), 'lost',
        whole.begun_at IS NOT NULL, 'running',
        'requested'
    ) AS state,
    if(state = 'lost', 'expired', toString(whole.reason)) AS reason,
    if(state = 'lost', 'no scheduler says what became of it: does one run (`warpmeter schedule`)?', whole.why) AS why,
    if(asked.first.3 != '', asked.first.3, each.job_id) AS job_id,
    asked.first.4 AS mode,
    asked.first.5 AS duration_ms,
    asked.first.6 AS iterations,
    whole.begun_at AS begun_at,
    whole.ended_at AS ended_at,
    each.rounds AS rounds,
    each.hosts AS hosts,
    each.processes AS processes,
    each.captured AS captured,
    each.analysed AS analysed,
    each.failed AS failed,
    each.hosts_failed AS hosts_failed,
    each.clocks_off AS clocks_off,
    each.bytes AS bytes,
    each.ranks AS ranks
FROM
(
    SELECT
        capture_id,
        min(r.ts) AS requested_at,
        argMin((r.name, r.requested_by, r.job_id, if(r.mode = '', 'trace', toString(r.mode)), r.duration_ms, r.iterations, r.interval_s), r.ts) AS first
    FROM {{ name("capture_requests") }} AS r
    WHERE r.action = 'start'
    GROUP BY capture_id
) AS asked
{{ left }}
(
    SELECT
        capture_id,
        minIf(toNullable(w.ts), w.state = 'requested') AS begun_at,
        minIf(toNullable(w.ts), w.state = 'ended') AS ended_at,
        argMinIf(w.reason, w.ts, w.state = 'ended') AS reason,
        argMinIf(w.why, w.ts, w.state = 'ended') AS why
    FROM {{ name("capture_events") }} AS w
    WHERE w.sequence = 0
    GROUP BY capture_id
) AS whole ON whole.capture_id = asked.capture_id
{{ left }}
(
    SELECT capture_id, max(c.deadline_at) AS deadline_at
    FROM {{ name("capture_commands") }} AS c
    GROUP BY capture_id
) AS told ON told.capture_id = asked.capture_id
{{ left }}
(
    SELECT
        capture_id,
        any(p.job_id) AS job_id,
        max(p.sequence) AS rounds,
        arraySort(groupUniqArray(toString(p.host))) AS hosts,
        countIf(p.pid IS NOT NULL) AS processes,
        countIf(p.url != '') AS captured,
        countIf(p.state = 'analysed' AND p.reason = '') AS analysed,
        countIf(p.pid IS NOT NULL AND p.url = '' AND p.state IN ('failed', 'cancelled')) AS failed,
        arraySort(groupUniqArrayIf(toString(p.host), p.pid IS NULL)) AS hosts_failed,
        arraySort(groupUniqArrayIf(toString(p.host), p.clock_skewed)) AS clocks_off,
        sum(p.bytes) AS bytes,
        arraySort(groupArray(CAST((p.sequence, p.rank, p.host, p.pid, p.state, p.reason), 'Tuple(sequence UInt32, rank Nullable(UInt32), host String, pid Nullable(UInt32), state String, reason String)'))) AS ranks
    FROM {{ name("capture_ranks") }} AS p
    GROUP BY capture_id
) AS each ON each.capture_id = asked.capture_id;
