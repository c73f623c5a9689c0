"""A trace file in, tables out: where the time of a profiled PyTorch process went.

`read` decodes a file into a `Trace` (columns, integer nanoseconds); each module besides computes one part of the answer
from it, with pure functions. Nothing here touches a bus or a store, and nothing prints.
"""
