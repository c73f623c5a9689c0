-- How many alerts fire now, that nobody has silenced? By severity.
SELECT
    countIf(severity = 'critical') AS critical, countIf(severity = 'warning') AS warning, countIf(severity = 'info') AS info
FROM alerts_now
WHERE state = 'firing' AND silenced_by = ''
