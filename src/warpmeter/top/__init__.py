"""`warpmeter top`: the live fleet in a terminal.

`source` asks the store or the API for named queries; `asking` makes a refresh of their answers, in a thread of its own
(`poller`); `lists` says which lists there are and what their columns are, `view` what of a list is shown, `drawing` how
(all three pure); `app` and what stands beside it are the terminal.
"""
