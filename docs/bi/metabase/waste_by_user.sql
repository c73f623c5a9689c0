-- Whose GPU hours were wasted. Variables: since (Date, required), user (Text, optional).
SELECT user, sum(gpu_hours) AS "GPU hours", sum(wasted_gpu_hours) AS "below 5 %",
       sum(wasted_gpu_hours) / nullIf(sum(gpu_hours), 0) AS "share wasted"
FROM job_efficiency
WHERE started_at >= toDateTime({{since}}) [[AND user = {{user}}]]
GROUP BY user
ORDER BY "below 5 %" DESC
LIMIT 50
