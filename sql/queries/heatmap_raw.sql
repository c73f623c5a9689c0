-- How did each GPU do over time? The same as heatmap from the raw rows, for steps below a minute.
-- @metric gpu_util  SI name of the metric
-- @since -15m  start of the window
-- @until now  end of the window
-- @step_s 10  length of a step in seconds
SELECT host, gpu, uuid, start, values
FROM gpu_heatmap_raw(metric = {metric:String}, since = {since:DateTime('UTC')}, until = {until:DateTime('UTC')}, step_s = {step_s:UInt32})
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
