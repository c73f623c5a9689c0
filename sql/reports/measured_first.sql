-- When was the first sample that there is? Of any GPU or host that was seen in the last 90 days; NULL: none.
SELECT nullIf(least(
    (SELECT coalesce(minOrNull(g.first_at), toDateTime64('2200-01-01 00:00:00', 3, 'UTC')) FROM gpu_last AS g),
    (SELECT coalesce(minOrNull(h.first_at), toDateTime64('2200-01-01 00:00:00', 3, 'UTC')) FROM host_last AS h)
), toDateTime64('2200-01-01 00:00:00', 3, 'UTC')) AS first_at
