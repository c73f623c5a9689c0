"""A stand-in for NVIDIA's management library, scripted from Python while it runs."""

from tests.nvml.stub import ANY, Gpu, NvmlStub, Process, constant, ramp, sine, square

__all__ = ["ANY", "Gpu", "NvmlStub", "Process", "constant", "ramp", "sine", "square"]
