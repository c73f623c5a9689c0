-- Which alerts is nobody told of, until when, and who said so? The view silences: those that hold or will, and of others the latest.
-- @silence_id ''  this one alone
-- @since -30d  those that have ended since
SELECT
    silence_id, said_at, said_by, matchers, starts_at, ends_at, comment,
    multiIf(ends_at <= now64(3), 'ended', starts_at > now64(3), 'ahead', 'holds') AS state
FROM silences
WHERE ({silence_id:String} = '' OR silence_id = {silence_id:String}) AND ends_at >= {since:DateTime('UTC')}
ORDER BY state = 'ended', ends_at, silence_id
LIMIT 10000
