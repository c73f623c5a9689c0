-- The kernel of a host ended processes for want of memory.
-- severity: warning
-- for: 0
-- keep: 60
-- summary: The kernel of host {host} ended {value} processes for want of memory in the last {minutes} minutes
-- do: `dmesg -T | grep -i oom` on the host names them; a job that lost a process may hang or have ended.
-- @minutes 15  the window
SELECT host, max(w.oom_kills_max) - min(w.oom_kills_min) AS value
FROM host_windows_1m AS w
WHERE w.window > {now:DateTime64(3, 'UTC')} - INTERVAL {minutes:UInt32} MINUTE AND w.window <= {now:DateTime64(3, 'UTC')}
GROUP BY host
HAVING value > 0 AND min(w.uptime_s_min) > 0 AND max(w.uptime_s_max) >= min(w.uptime_s_min)
ORDER BY host
