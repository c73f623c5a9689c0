-- A job that runs is slower than its own past runs: over the last minutes its optimizer's step takes longer, or its GPUs' SM activity is less, than in three of four of its runs before (of the same user and name), and by more than a part of the median of these. The begin of a run is not looked at, nor the SM activity of jobs that kept their GPUs less than busy: what is used by hand comes and goes. docs/regressions.md has the method that looks more closely, and names what changed.
-- severity: warning
-- for: 600
-- keep: 900
-- every: 300
-- unit: ratio 0-1
-- summary: Job {job_id} ({job}, {user}) is slower than its {runs} runs before by {value}: {metric} {before} → {current}
-- do: `warpmeter regressions --run {job_id}` says what changed; `warpmeter capture {job_id}` takes a profile, as a trigger does by itself ([[alerts.triggers]]).
-- @worse 0.2  by so much of what it was before
-- @active 0.3  SM activity of the runs before, at the least, for a fall of it to count
-- @minutes 20  of which the mean is looked at
-- @runs 4  before it, at the least
-- @days 28  of which runs are looked at
WITH
    {now:DateTime64(3, 'UTC')} AS at,
    toDateTime(at, 'UTC') - INTERVAL {minutes:UInt32} MINUTE AS since,
    known AS
    (
        SELECT t.job_id AS job_id, argMax(t.user, t.last_at) AS user, argMax(t.name, t.last_at) AS name, min(t.started_at) AS begun
        FROM job_trees AS t
        WHERE t.last_at >= at - INTERVAL {days:UInt32} DAY
        GROUP BY t.job_id
        HAVING name != ''
    ),
    lately AS
    (
        SELECT w.job_id AS job_id, 'SM activity' AS metric, sum(w.sm_active_seconds) / sum(w.sm_active_known_seconds) AS figure
        FROM job_windows_1m AS w
        WHERE w.window >= since AND w.window < at
        GROUP BY w.job_id
        HAVING sum(w.sm_active_known_seconds) > 0 AND min(w.window) <= since + INTERVAL 2 MINUTE AND max(w.window) >= at - INTERVAL 4 MINUTE
        UNION ALL
        SELECT s.job_id AS job_id, 'step' AS metric, sum(s.step_seconds_sum) / sum(s.readings) AS figure
        FROM job_steps_1m AS s
        WHERE s.window >= since AND s.window < at
        GROUP BY s.job_id
        HAVING min(s.window) <= since + INTERVAL 2 MINUTE AND max(s.window) >= at - INTERVAL 4 MINUTE
    ),
    past AS
    (
        SELECT hours.job_id AS job_id, hours.metric AS metric, quantileExact(0.5)(hours.figure) AS figure
        FROM
        (
            SELECT w.job_id AS job_id, 'SM activity' AS metric, w.window AS window, sum(w.sm_active_seconds) / sum(w.sm_active_known_seconds) AS figure
            FROM job_windows_1h AS w
            WHERE w.window >= at - INTERVAL {days:UInt32} DAY AND w.window < at
            GROUP BY w.job_id, w.window
            HAVING sum(w.sm_active_known_seconds) > 0
            UNION ALL
            SELECT s.job_id AS job_id, 'step' AS metric, s.window AS window, sum(s.step_seconds_sum) / sum(s.readings) AS figure
            FROM job_steps_1h AS s
            WHERE s.window >= at - INTERVAL {days:UInt32} DAY AND s.window < at
            GROUP BY s.job_id, s.window
        ) AS hours
        GROUP BY hours.job_id, hours.metric
    ),
    run AS
    (
        SELECT past.metric AS metric, past.figure AS figure, known.job_id AS job_id, known.user AS user, known.name AS name, known.begun AS begun
        FROM past
        GLOBAL INNER JOIN known ON known.job_id = past.job_id
    ),
    mine AS
    (
        SELECT lately.metric AS metric, lately.figure AS figure, known.job_id AS job_id, known.user AS user, known.name AS name, known.begun AS begun
        FROM lately
        GLOBAL INNER JOIN known ON known.job_id = lately.job_id
        WHERE known.begun <= since - INTERVAL 10 MINUTE
    ),
    held AS
    (
        SELECT
            mine.job_id AS job_id, mine.user AS user, mine.name AS name, mine.metric AS metric, mine.figure AS figure,
            count() AS runs, quantileExact(0.5)(run.figure) AS middle,
            quantileExactLow(0.25)(run.figure) AS least, quantileExactHigh(0.75)(run.figure) AS most,
            if(metric = 'step', figure / middle - 1, 1 - figure / middle) AS slower,
            slower >= {worse:Float64} AND if(metric = 'step', figure > most, figure < least) AS begins
        FROM mine
        GLOBAL INNER JOIN run ON run.user = mine.user AND run.name = mine.name AND run.metric = mine.metric
        WHERE run.job_id != mine.job_id AND run.begun < mine.begun
        GROUP BY mine.job_id, mine.user, mine.name, mine.metric, mine.figure
        HAVING runs >= {runs:UInt32} AND middle > if(metric = 'step', 0., {active:Float64}) AND slower >= 0.7 * {worse:Float64}
    )
SELECT
    job_id, name AS job, user,
    slower AS value,
    begins AS starts,
    metric, runs,
    if(metric = 'step', concat(toString(round(middle, 4)), ' s'), concat(toString(round(100 * middle, 1)), ' %')) AS before,
    if(metric = 'step', concat(toString(round(figure, 4)), ' s'), concat(toString(round(100 * figure, 1)), ' %')) AS current
FROM held
ORDER BY job_id, begins DESC, metric = 'step' DESC, slower DESC
LIMIT 1 BY job_id
