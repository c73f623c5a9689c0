-- What does the night cost? Energy of all GPUs in each night of a time zone, what it costs, and how many GPU hours were idle.
-- A night has the date of its evening. Power that is not known counts as none.
-- @since -7d  start of the window, rounded down to an hour
-- @until now  end of the window
-- @from_hour 22  when a night begins
-- @to_hour 6  when it is over
-- @timezone UTC  whose night: Europe/Berlin, America/New_York, …
-- @kwh_price 0.3  of a kWh, in any currency
SELECT
    toDate(window, {timezone:String}) - toUInt8({from_hour:UInt8} >= {to_hour:UInt8} AND toHour(window, {timezone:String}) < {to_hour:UInt8}) AS night,
    sum(covered_ms) / 3600000 AS gpu_hours,
    sum(idle_ms) / 3600000 AS idle_gpu_hours,
    sum(power_deciwatts_sum / 10 * covered_ms / 1000 / nullIf(samples, 0)) / 3.6e6 AS energy_kwh,
    energy_kwh * {kwh_price:Float64} AS energy_cost
FROM
(
    SELECT window, sum(f.covered_ms) AS covered_ms, sum(f.idle_ms) AS idle_ms, sum(f.samples) AS samples, sum(f.power_deciwatts_sum) AS power_deciwatts_sum
    FROM fleet_windows_1h AS f
    WHERE window >= toStartOfHour({since:DateTime('UTC')}) AND window < {until:DateTime('UTC')}
        AND if(
            {from_hour:UInt8} < {to_hour:UInt8},
            toHour(window, {timezone:String}) >= {from_hour:UInt8} AND toHour(window, {timezone:String}) < {to_hour:UInt8},
            toHour(window, {timezone:String}) >= {from_hour:UInt8} OR toHour(window, {timezone:String}) < {to_hour:UInt8}
        )
    GROUP BY window
)
GROUP BY night
ORDER BY night
