-- Which schedules of captures hold? The view schedules, one alone where `schedule` says so.
-- @schedule ''  this one alone
SELECT * FROM schedules
WHERE {schedule:String} = '' OR name = {schedule:String}
ORDER BY name
LIMIT 10000
