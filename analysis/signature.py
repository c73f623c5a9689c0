"""C++ signatures of kernels, read just far enough to name them: the function, and the template argument that tells.

PyTorch's kernels are a few generic loops, told apart by a functor deep in their template arguments; CUTLASS's are one
`Kernel` with a configuration. What is not understood is left as it stands: nothing here fails on a text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PLAIN_ROOM: Final = 36
"""Plain template arguments (types and numbers) are told when they take no more characters than that."""
_DEPTH: Final = 8

_ANONYMOUS: Final = re.compile(r"\(anonymous namespace\)::|\{anonymous\}::|\b_GLOBAL__N__?\w*::")
_WRAPPER: Final = re.compile(r"Kernel\d?|device_kernel")
_GENERIC: Final = re.compile(
    r"Kernel\d?|device_kernel|\w*elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel|gpu_kernel_impl\w*"
    r"|gpu_index_kernel|index_kernel_impl|ReduceOp|func_wrapper_t|[AB]?UnaryFunctor|BUnaryFunctor|BinaryFunctor"
    r"|(?:BinaryOp|UnaryOp|Pointwise|TernaryOp)\w*Functor"
)
_TELLS_NOTHING: Final = re.compile(
    r"\w*TensorListMetadata|TensorInfo|[Aa]rray|(?:Trivial)?OffsetCalculator|(?:Load|Store)With\w*|OpaqueType"
)
_PLAIN: Final = re.compile(
    r"-?\d+[ul]*|(?:unsigned |signed )?(?:float|double|int|long long|long|short|char|bool)\d?|unsigned|half2?|__half2?"
    r"|Half|BFloat16|complex<\w+>|Float8_\w+|__nv_\w+|\w*bfloat16\w*|\w*half_t|tfloat32_t|u?int\d+_t"
)
_LETTERS: Final = re.compile(r"[^:<{( ]+")


@dataclass(frozen=True)
class Part:
    """One component of a qualified name: `name<arguments>`."""

    name: str
    arguments: tuple[str, ...] = ()

    @property
    def inner(self) -> bool:
        """What stands in a function: a lambda or a call operator."""
        return self.name.startswith(("{", "operator"))


def shortened(signature: str) -> str:
    """The short name of a demangled signature; the text itself where it is none."""
    parts = _parts(_ANONYMOUS.sub("", signature))
    named = [part for part in parts if not part.inner]
    if not named:
        return signature
    if named[-1].name == "kernel" and len(named) > 1:
        return f"{named[-2].name}::kernel"
    return _told(named[-1], 0)


def _told(part: Part, depth: int) -> str:
    """The part's name with what tells it apart."""
    if _GENERIC.fullmatch(part.name) and depth < _DEPTH:
        inner = next((told for argument in part.arguments if (told := _essence(argument, depth + 1))), "")
        if _WRAPPER.fullmatch(part.name):
            return inner or part.name
        return f"{part.name}<{inner}>" if inner and not depth else inner or part.name
    plain = [text for argument in part.arguments if _PLAIN.fullmatch(text := _unqualified(argument))]
    listed = ", ".join(text.rstrip("ul") if text[0].isdigit() else text for text in plain)
    return f"{part.name}<{listed}>" if listed and len(listed) <= PLAIN_ROOM else part.name


def _essence(argument: str, depth: int) -> str:
    """The function that a template argument stands for, with its type; empty for types, numbers and fillers."""
    if _PLAIN.fullmatch(_unqualified(argument)) or argument in ("true", "false"):
        return ""
    parts = _parts(argument)
    named = next((part for before, part in zip(parts[1:], parts, strict=False) if before.inner), None)
    part = named or next((part for part in reversed(parts) if not part.inner), None)
    if part is None or _TELLS_NOTHING.fullmatch(part.name):
        return ""
    told = _told(part, depth)
    if named is None or _GENERIC.fullmatch(part.name) or not parts[-1].name.startswith("{lambda"):
        return told
    return told + "(" + ", ".join(map(_unqualified, _split(_lambda(parts[-1].name)))) + ")"


def _lambda(text: str) -> str:
    """The parameters of `{lambda(float)#1}`."""
    found = re.search(r"\((.*)\)", text)
    return found[1] if found else ""


def _unqualified(text: str) -> str:
    """A type without namespaces and qualifiers: `c10::Half const*` is Half."""
    text = re.sub(r"\bconst\b|\bvolatile\b|[&*]", "", text).strip()
    return re.sub(r"\b(?:\w+::)+", "", text)


def _parts(text: str) -> list[Part]:
    """The components of the last qualified name at the top of a text, up to the function's own parameters."""
    return _Scan(text).parts()


class _Scan:
    """One pass over a text; `name` and `arguments` are of the component being read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._name = ""
        self._arguments: tuple[str, ...] = ()
        self._parts: list[Part] = []

    def parts(self) -> list[Part]:
        steps = {":": self._colon, "<": self._angle, "{": self._brace, "(": self._round, " ": self._space}
        while self._place < len(self._text):
            steps.get(self._text[self._place], self._letter)()
        self._finish()
        return self._parts

    def _finish(self) -> None:
        if self._name:
            self._parts.append(Part(self._name, self._arguments))
        self._name, self._arguments = "", ()

    def _colon(self) -> None:
        self._finish()
        self._place += 1

    def _angle(self) -> None:
        if self._name == "operator":
            return self._letter()
        inside = self._bracket()[1:-1]
        self._arguments = tuple(_split(inside))
        return None

    def _brace(self) -> None:
        self._name += self._bracket()

    def _round(self) -> None:
        if self._name == "operator":
            self._name += self._bracket()
            return
        self._bracket()
        if not self._text.startswith(("::", " const::"), self._place):
            self._place = len(self._text)

    def _space(self) -> None:
        """What stood before is a return type, unless the space belongs to a function's `const`."""
        self._place += 1
        if self._text.startswith("const::", self._place):
            self._place += len("const")
        else:
            self._parts, self._name, self._arguments = [], "", ()

    def _letter(self) -> None:
        """All up to the next sign that means something: one by one, a megabyte would be copied as often."""
        found = _LETTERS.match(self._text, self._place)
        self._name += found[0] if found else self._text[self._place]
        self._place = found.end() if found else self._place + 1

    def _bracket(self) -> str:
        """The bracket at the place with what is in it, and on behind it."""
        begin, self._place = self._place, _closing(self._text, self._place)
        return self._text[begin : self._place]


def _split(text: str) -> Iterator[str]:
    """Template arguments or parameters, at the top."""
    begin = place = 0
    while place < len(text):
        if text[place] == ",":
            yield text[begin:place].strip()
            begin = place + 1
        place = _closing(text, place) if text[place] in "<({" else place + 1
    if rest := text[begin:].strip():
        yield rest


_CLOSE: Final = {"<": ">", "(": ")", "{": "}"}


def _closing(text: str, place: int) -> int:
    """Just behind the bracket that closes the one at `place`; the text's end where none does."""
    opens, closes = text[place], _CLOSE[text[place]]
    depth = 0
    while place < len(text):
        char = text[place]
        if opens == "<" and char in "({":
            place = _closing(text, place)
            continue
        depth += (char == opens) - (char == closes and text[place - 1] != "-")
        place += 1
        if not depth:
            return place
    return len(text)


_NAME: Final = re.compile(r"\d{1,9}")
_SKIP: Final = re.compile(r"[KVr]|S[tabsiod]|S\w*?_")


def demangled(symbol: str) -> str:
    """The short name of an Itanium-mangled symbol: its function, or what its first template argument names."""
    place = 3 if symbol.startswith("_ZN") else 2
    names, place = _source_names(symbol, place)
    if not names:
        return ""
    inner = ""
    if _WRAPPER.fullmatch(names[-1]) and symbol.startswith("I", place):
        found, _ = _source_names(symbol, place + 2 if symbol.startswith("N", place + 1) else place + 1)
        inner = found[-1] if found else ""
    return inner or names[-1]


def _source_names(symbol: str, place: int) -> tuple[list[str], int]:
    """The identifiers of a nested name, each written behind its length, and where they end."""
    names: list[str] = []
    while found := _NAME.match(symbol, place) or _SKIP.match(symbol, place):
        place = found.end()
        if found[0].isdigit():
            name = symbol[place : place + int(found[0])]
            place += int(found[0])
            names += [] if name.startswith("_GLOBAL__N") else [name]
    return names, min(place, len(symbol))
