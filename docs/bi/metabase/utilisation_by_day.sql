-- How busy the fleet is, by day. Variables: since (Date, required).
SELECT toDate(window) AS day,
       sum(gpu_util_permille_sum) / nullIf(sum(gpu_util_permille_count), 0) / 1000 AS "GPU utilisation",
       sum(sm_active_permille_sum) / nullIf(sum(sm_active_permille_count), 0) / 1000 AS "SM activity"
FROM fleet_windows_1h
WHERE window >= toDateTime({{since}})
GROUP BY day
ORDER BY day
