-- Has anything ever been heard of this host?
-- @host -  the host
SELECT
    (SELECT count() FROM host_last WHERE host = {host:String})
    + (SELECT count() FROM gpu_last WHERE host = {host:String})
    + (SELECT count() FROM source_last WHERE host = {host:String}) > 0 AS known
