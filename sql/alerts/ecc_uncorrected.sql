-- The memory of a GPU has errors that ECC could not mend, since its driver was loaded.
-- severity: critical
-- for: 0
-- keep: 0
-- summary: GPU {gpu} of host {host} has {value} memory errors that ECC could not mend
-- do: Drain the host and reset the GPU (`nvidia-smi -r`), which remaps the rows; one that has more soon after belongs to the vendor's support.
SELECT host, gpu, uuid, argMaxMerge(ecc_uncorrected) AS value
FROM gpu_last
GROUP BY host, gpu, uuid
HAVING value > 0 AND max(gpu_last.last_at) > {now:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
ORDER BY host, gpu, uuid
