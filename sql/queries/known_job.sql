-- Has this job ever been heard of?
-- @job_id -  the job
SELECT (SELECT count() FROM job_trees WHERE job_id = {job_id:String}) + (SELECT count() FROM job_windows_1h WHERE job_id = {job_id:String}) > 0 AS known
