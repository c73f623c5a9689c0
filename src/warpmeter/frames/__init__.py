"""What the store knows, as pandas' frames: for notebooks and scripts.

    import warpmeter

    wm = warpmeter.connect()                      # the `warpmeter up` of this machine
    wm.heatmap("sm_active", "-24h", step="15m")   # a frame: GPUs by time

Types, units, times and what is read how are in docs/pandas.md.
"""

from warpmeter.frames.asking import AskError
from warpmeter.frames.connecting import connect
from warpmeter.frames.frames import Frames
from warpmeter.frames.units import unit

__all__ = ["AskError", "Frames", "connect", "unit"]
