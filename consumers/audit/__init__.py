"""Does it add up: `warpmeter check`.

spans    offsets in the book (`ingest_batches`) held against topic, group and dead letters; pure
counts   rows in the tables held against the book and the rollups, by days
blame    which of table, book and rollups is wrong where they differ; pure
facts    what is asked of broker and store
run      all of it, looked at again while it moves
"""
