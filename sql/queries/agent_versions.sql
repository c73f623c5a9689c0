-- Which versions of the agent and of the kernel run? How many hosts have each, and how many of them are not well.
SELECT
    agent_version, kernel,
    count() AS hosts,
    countIf(state != 'ok') AS hosts_not_ok,
    sum(gpus) AS gpus,
    arraySort(groupArray(3)(host)) AS examples
FROM (SELECT * FROM hosts ORDER BY host)
GROUP BY agent_version, kernel
ORDER BY hosts DESC, agent_version, kernel
