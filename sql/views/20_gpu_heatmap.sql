-- gpu_heatmap(metric = 'sm_active', since = '2026-11-29 00:00:00', until = now(), step_s = 300)
--
-- One row a GPU: the mean of a metric in each step, as one array. `metric` is an SI name of the metric table, of what
-- is rolled up. The first step begins at `start`: `since` rounded down to a whole step; the last one holds the second
-- before `until`. A step without a known value is NULL. Values are rounded to a hundredth of the stored scale.
--
-- A step of whole hours reads the hours, of whole minutes the minutes, any other the raw rows. gpu_heatmap_raw,
-- gpu_heatmap_minutes and gpu_heatmap_hours read the one in their name, and spare the engine looking at all three.
--
-- Ask with SETTINGS optimize_aggregation_in_order = 1 (a view cannot set it): rows then come in the order of the
-- groups, each GPU is finished before the next begins, and the answer takes a third of the time.

{# SI name, stored column, factor. Looked up in a string: a view's argument takes no transform(), and a map of them costs
   milliseconds to analyse. #}
{% set metrics = [
  ("gpu_util", "gpu_util_permille", 0.001), ("mem_copy_util", "mem_copy_util_permille", 0.001),
  ("sm_active", "sm_active_permille", 0.001), ("sm_occupancy", "sm_occupancy_permille", 0.001),
  ("tensor_active", "tensor_active_permille", 0.001), ("dram_active", "dram_active_permille", 0.001),
  ("fp16_active", "fp16_active_permille", 0.001), ("fp32_active", "fp32_active_permille", 0.001),
  ("fp64_active", "fp64_active_permille", 0.001), ("encoder_util", "encoder_util_permille", 0.001),
  ("decoder_util", "decoder_util_permille", 0.001), ("fan", "fan_permille", 0.001),
  ("fb_used_bytes", "fb_used_mebibytes", 1048576), ("fb_total_bytes", "fb_total_mebibytes", 1048576),
  ("fb_reserved_bytes", "fb_reserved_mebibytes", 1048576),
  ("power_watts", "power_deciwatts", 0.1), ("power_limit_watts", "power_limit_deciwatts", 0.1),
  ("energy_joules", "energy_joules", 1), ("temperature_celsius", "temperature_celsius", 1),
  ("mem_temperature_celsius", "mem_temperature_celsius", 1), ("throttle_reasons", "throttle_reasons", 1),
  ("performance_state", "performance_state", 1),
  ("sm_clock_hertz", "sm_clock_megahertz", 1000000), ("mem_clock_hertz", "mem_clock_megahertz", 1000000),
  ("pcie_tx_bytes_per_s", "pcie_tx_megabytes_per_s", 1000000),
  ("pcie_rx_bytes_per_s", "pcie_rx_megabytes_per_s", 1000000),
  ("nvlink_tx_bytes_per_s", "nvlink_tx_megabytes_per_s", 1000000),
  ("nvlink_rx_bytes_per_s", "nvlink_rx_megabytes_per_s", 1000000),
  ("pcie_link_generation", "pcie_link_generation", 1), ("pcie_link_width", "pcie_link_width", 1),
  ("pcie_replays", "pcie_replays", 1), ("ecc_corrected_errors", "ecc_corrected_errors", 1),
  ("ecc_uncorrected_errors", "ecc_uncorrected_errors", 1), ("remapped_rows_corrected", "remapped_rows_corrected", 1),
  ("remapped_rows_uncorrected", "remapped_rows_uncorrected", 1), ("processes", "processes", 1),
  ("graphics_active", "graphics_active_permille", 0.001), ("nvlink_crc_errors", "nvlink_crc_errors", 1),
] %}
{% set stored %}extract(concat('{% for si, column, factor in metrics %}{{ si }}={{ column }},{% endfor %}', {metric:String}, '=no_such_metric_', {metric:String}), concat('\\b', {metric:String}, '=(\\w+)')){% endset %}
{% set factor %}toFloat64OrZero(extract('{% for si, column, factor in metrics %}{{ si }}={{ factor }},{% endfor %}', concat('\\b', {metric:String}, '=([0-9.]+)'))){% endset %}

{# A hundredth of the stored scale: what lies below is noise of the division. #}
{% set decimals %}toUInt8(greatest(0, 2 - round(log10(greatest(0.001, {{ factor }}))))){% endset %}

{% set step = "{step_s:UInt32}" %}
{% set start = "intDiv(toUnixTimestamp({since:DateTime('UTC')}), " ~ step ~ ") * " ~ step %}
{% set end = "(intDiv(toUnixTimestamp({until:DateTime('UTC')}) - 1, " ~ step ~ ") + 1) * " ~ step %}
{% set window = "since = {since:DateTime('UTC')}, until = {until:DateTime('UTC')}, step_s = {step_s:UInt32}" %}

{# `condition` is constant, so what it refuses is not read. #}
{% macro heatmap(table, time, instant, mean, condition) %}
SELECT
    host, gpu, uuid,
    toDateTime({{ start }}, 'UTC') AS start,
    {{ step }} AS step_s,
    arrayMap(x -> if(isNaN(x), NULL, round(x, {decimals:UInt8})), {{ mean }}) AS values
FROM {{ name(table) }}
WHERE {{ time }} >= {{ instant | replace('?', start) }} AND {{ time }} < {{ instant | replace('?', end) }} AND {{ condition }}
GROUP BY host, gpu, uuid
{% endmacro %}

{# In milliseconds, as ts is stored: seconds would cost a division a row. #}
{% macro of_rows(condition) %}
{{ heatmap("gpu_samples", "ts", "toDateTime64(?, 3, 'UTC')", "avgResample(" ~ start ~ " * 1000, " ~ end ~ " * 1000, " ~ step ~ " * 1000)({metric:Identifier}, toUnixTimestamp64Milli(ts))", condition) }}
{% endmacro %}

{# The weight is made a float: avgWeighted cuts a float value to an integer when its weight is one (seen in 26.9). #}
{% macro of_windows(table, condition) %}
{{ heatmap(table, "window", "toDateTime(?, 'UTC')", "avgWeightedResample(" ~ start ~ ", " ~ end ~ ", " ~ step
   ~ ")({total:Identifier} / nullIf({known:Identifier}, 0) * {factor:Float64}, toFloat64({known:Identifier}), toUInt32(window))", condition) }}
{% endmacro %}

{% set chosen = "total = concat(" ~ stored ~ ", '_sum'), known = concat(" ~ stored ~ ", '_count'), factor = " ~ factor ~ ", decimals = " ~ decimals ~ ", " ~ window %}
{% set chosen_rows = "metric = {metric:String}, decimals = " ~ decimals ~ ", " ~ window %}

-- What the four are made of: `_all` reads its table, `_part` as well, but only when the step is its own.
CREATE OR REPLACE VIEW {{ name("gpu_heatmap_rows_all") }} {{ on_cluster }} AS
{{ of_rows("1") }};

CREATE OR REPLACE VIEW {{ name("gpu_heatmap_rows_part") }} {{ on_cluster }} AS
{{ of_rows(step ~ " % 60 != 0") }};

{% for table in ["gpu_heatmap_1m", "gpu_heatmap_1h"] %}
CREATE OR REPLACE VIEW {{ name(table ~ "_all") }} {{ on_cluster }} AS
{{ of_windows(table, "1") }};

CREATE OR REPLACE VIEW {{ name(table ~ "_part") }} {{ on_cluster }} AS
{{ of_windows(table, step ~ (" % 60 = 0 AND " ~ step ~ " % 3600 != 0" if table == "gpu_heatmap_1m" else " % 3600 = 0")) }};
{% endfor %}

CREATE OR REPLACE VIEW {{ name("gpu_heatmap_raw") }} {{ on_cluster }} AS
SELECT * FROM {{ name("gpu_heatmap_rows_all") }}({{ chosen_rows }});

CREATE OR REPLACE VIEW {{ name("gpu_heatmap_minutes") }} {{ on_cluster }} AS
SELECT * FROM {{ name("gpu_heatmap_1m_all") }}({{ chosen }});

CREATE OR REPLACE VIEW {{ name("gpu_heatmap_hours") }} {{ on_cluster }} AS
SELECT * FROM {{ name("gpu_heatmap_1h_all") }}({{ chosen }});

CREATE OR REPLACE VIEW {{ name("gpu_heatmap") }} {{ on_cluster }} AS
SELECT * FROM {{ name("gpu_heatmap_rows_part") }}({{ chosen_rows }})
UNION ALL
SELECT * FROM {{ name("gpu_heatmap_1m_part") }}({{ chosen }})
UNION ALL
SELECT * FROM {{ name("gpu_heatmap_1h_part") }}({{ chosen }});
