{{ config(materialized='table', engine='MergeTree()', order_by='(day, job_id)') }}

SELECT
    toDate(hours.window) AS day,
    hours.job_id AS job_id,
    sum(hours.gpu_seconds) / 3600 AS gpu_hours,
    sum(hours.idle_seconds) / 3600 AS wasted_gpu_hours,
    sum(hours.energy_joules) / 3.6e6 AS energy_kwh
FROM {{ source('warpmeter', 'job_windows_1h') }} AS hours
GROUP BY day, job_id
