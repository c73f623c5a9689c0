-- What exactly did one host's GPUs do? Every sample, in SI units.
-- @host -  the host
-- @since -1h  start of the window
-- @until now  end of the window
SELECT
    ts, gpu, uuid, gpu_util, sm_active, sm_occupancy, tensor_active, dram_active, fp16_active, fp32_active, fb_used_bytes,
    power_watts, temperature_celsius, sm_clock_hertz, mem_clock_hertz, pcie_tx_bytes_per_s, pcie_rx_bytes_per_s,
    nvlink_tx_bytes_per_s, nvlink_rx_bytes_per_s
FROM gpu_samples
WHERE host = {host:String} AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
ORDER BY gpu, uuid, ts
