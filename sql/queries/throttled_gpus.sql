-- Which GPUs are held back, and by what? Seconds in which a reason held the clocks down; idle and set clocks are no reason.
-- Bits as NVML's nvmlClocksEventReasons: power 0x4 and 0x80, hardware 0x8, heat 0x20 and 0x40.
-- @since -1h  start of the window
-- @until now  end of the window
SELECT
    host, gpu, uuid,
    sumIf(period_ms, bitAnd(throttle_reasons, 0xec) != 0) / 1000 AS throttled_s,
    sumIf(period_ms, bitAnd(throttle_reasons, 0x84) != 0) / 1000 AS power_s,
    sumIf(period_ms, bitAnd(throttle_reasons, 0x60) != 0) / 1000 AS heat_s,
    sumIf(period_ms, bitAnd(throttle_reasons, 0x08) != 0) / 1000 AS hardware_s,
    sum(period_ms) / 1000 AS observed_s,
    min(sm_clock_megahertz) * 1000000 AS sm_clock_hertz_min
FROM gpu_samples
WHERE ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
GROUP BY host, gpu, uuid
HAVING throttled_s > 0
ORDER BY throttled_s DESC, host, gpu, uuid
