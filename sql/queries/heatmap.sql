-- How did each GPU do over time? One row a GPU, a metric's mean in each step of whole minutes as one array.
-- @metric gpu_util  SI name of the metric
-- @since -6h  start of the window
-- @until now  end of the window
-- @step_s 300  length of a step in seconds, a multiple of 60
SELECT host, gpu, uuid, start, values
FROM gpu_heatmap_minutes(metric = {metric:String}, since = {since:DateTime('UTC')}, until = {until:DateTime('UTC')}, step_s = {step_s:UInt32})
ORDER BY host, gpu, uuid
SETTINGS optimize_aggregation_in_order = 1
