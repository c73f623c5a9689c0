SELECT
    daily.day AS day,
    jobs.user AS user,
    sum(daily.gpu_hours) AS gpu_hours,
    sum(daily.wasted_gpu_hours) AS wasted_gpu_hours,
    wasted_gpu_hours / nullIf(gpu_hours, 0) AS wasted
FROM {{ ref('gpu_hours_daily') }} AS daily
LEFT JOIN {{ source('warpmeter', 'jobs') }} AS jobs ON jobs.job_id = daily.job_id
GROUP BY day, user
