-- What can the agents not read, and why? Unsupported (this host or GPU has no such thing), failed now, gone (it was there),
-- denied and timed out are told apart; sources that are well are left out.
-- @state any  only this state, or any
SELECT host, source, subject, state, why, ok_at, last_seen_at, silent
FROM source_health_now
WHERE state != 'ok' AND ({state:String} = 'any' OR state = {state:String})
ORDER BY host, source, subject
