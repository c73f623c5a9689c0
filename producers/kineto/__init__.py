"""The endpoint of PyTorch's profiler (Kineto): processes register, and are handed what to trace.

`wire` is the datagrams, `configuration` the text that asks for a trace, `registry` who is there, `endpoint` the
sockets, `rpc` dynolog's port, for its command and scripts built on it.
"""
