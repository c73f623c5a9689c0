-- Which ranks of a capture held the others up, at what cost, and why? The costliest first; nothing where all came in time.
-- @capture_id -  the capture
SELECT
    rank, host, gpu_model, last, of, cost_seconds, late_seconds, worst_ns / 1e9 AS worst_seconds, waited_seconds, cause,
    mapApply((name, ns) -> (name, ns / 1e9), causes) AS causes_seconds, compute_over_median
FROM stragglers
WHERE capture_id = {capture_id:String}
ORDER BY cost_seconds DESC, rank
