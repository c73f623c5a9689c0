-- How many GPUs are busy, idle, failing and gone? Idle is below 5 %; failing: an XID stands, memory has errors that ECC
-- could not mend, or heat, a power brake or the hardware hold its clocks down; gone: lost, or nothing has been heard of it.
-- Which those are is in gpus_listed.
SELECT
    countIf(status = 'busy') AS busy,
    countIf(status = 'idle') AS idle,
    countIf(status = 'failing') AS failing,
    countIf(status = 'gone') AS gone,
    count() AS total
FROM gpu_statuses
