-- Nobody says anything of a host that was there: it is down, its agent ended, or its network is cut. A host of which old rows still arrive, after an outage, is late and not silent. Hosts that have been silent for longer than `forget_days` are taken for gone by intent. Samples that are more than an hour ahead do not count.
-- severity: critical
-- for: 30
-- keep: 60
-- unit: s
-- summary: Host {host} has said nothing for {value} (since {seen_at})
-- do: Where `clock-skew` tells of it too, mend its clock first. Is the host up (ping, its console)? If it is, look at the agent there: `systemctl status warpmeter-agent`, `warpmeter doctor`.
-- @silent_s 60  seconds without a word, or six of the host's periods where these are longer; pending after half of it
-- @forget_days 7  days after which a silent host is no more alerted of
SELECT
    host,
    dateDiff('millisecond', seen_at, {now:DateTime64(3, 'UTC')}) / 1000 AS value,
    seen_at,
    seen_at AS still
FROM
(
    SELECT host, max(at) AS seen_at, max(period_s) AS period_s
    FROM
    (
        SELECT host, max(host_last.last_at) AS at, argMaxMerge(latest).period_ms / 1000 AS period_s
        FROM host_last
        GROUP BY host
        HAVING at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
        UNION ALL
        SELECT host, max(gpu_last.last_at) AS at, 0 AS period_s
        FROM gpu_last
        GROUP BY host
        HAVING at <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
        UNION ALL
        SELECT host, max(ts) AS at, max(period_ms) / 1000 AS period_s
        FROM host_samples
        WHERE ts > {now:DateTime64(3, 'UTC')} - INTERVAL 1 DAY AND ts <= {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
            AND host GLOBAL IN (SELECT host FROM host_last WHERE last_at > {now:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR)
        GROUP BY host
    )
    GROUP BY host
)
WHERE value > greatest({silent_s:Float64}, 6 * period_s) / 2 AND value < {forget_days:UInt32} * 86400
ORDER BY host
