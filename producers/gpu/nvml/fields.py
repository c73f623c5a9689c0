"""Field values: many numbers of a GPU in one call, each with its own return code."""

import ctypes
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, Problem, problem
from warpmeter.producers.gpu.nvml.ways import Numbers, Read, Way

# NVML_VALUE_TYPE_* in order.
_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class _FieldValue(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlFieldValue_t._fields_)


Single = float | Problem


class Fields:
    """Several field values of a GPU in one call, each with a fate of its own."""

    def __init__(self, gpu: Handle, fields: tuple[tuple[int, int], ...]) -> None:
        """`fields`: NVML_FI_* and scope."""
        self._call, self._gpu = function("nvmlDeviceGetFieldValues"), gpu
        self._array = (_FieldValue * len(fields))()
        for value, (field, scope) in zip(self._array, fields, strict=True):
            value.fieldId, value.scopeId = field, scope

    def read(self) -> list[Single] | Problem:
        """One value or problem a field, in their order."""
        if self._call is None:
            return NO_FUNCTION
        code = self._call(self._gpu, ctypes.c_int(len(self._array)), self._array)
        return problem(code) if code else [self._one(value) for value in self._array]

    @staticmethod
    def _one(value: _FieldValue) -> Single:
        if value.nvmlReturn:
            return problem(value.nvmlReturn)
        number: float = getattr(value.value, _MEMBERS[value.valueType])
        return number


def field(number: int, scope: int = 0) -> Way:
    """One field value (NVML_FI_*) in a call of its own: for what is seldom read."""

    def prepare(gpu: Handle) -> Read | None:
        fields = Fields(gpu, ((number, scope),))

        def read() -> Numbers | Problem:
            got = fields.read()
            if isinstance(got, Problem):
                return got
            return got[0] if isinstance(got[0], Problem) else (got[0],)

        return read

    return prepare
