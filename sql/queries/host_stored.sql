-- What exactly did one host's GPUs do? Every sample, as it is stored, with the scale in the name: the least work where many
-- samples are wanted; host_raw gives the same in SI units.
-- @host -  the host
-- @since -1h  start of the window
-- @until now  end of the window
SELECT
    ts, gpu, uuid, gpu_util_permille, sm_active_permille, sm_occupancy_permille, tensor_active_permille,
    dram_active_permille, fp16_active_permille, fp32_active_permille, fb_used_mebibytes, power_deciwatts,
    temperature_celsius, sm_clock_megahertz, mem_clock_megahertz, pcie_tx_megabytes_per_s, pcie_rx_megabytes_per_s,
    nvlink_tx_megabytes_per_s, nvlink_rx_megabytes_per_s
FROM gpu_samples
WHERE host = {host:String} AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
ORDER BY gpu, uuid, ts
