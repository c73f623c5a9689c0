"""Text that steers no terminal: hosts, jobs and processes are called what somebody else says.

What does not print (controls of C0 and C1, DEL, marks that turn the direction of writing) is spelled out.
"""

import json


def printable(text: str, keep: str = "\n") -> str:
    """Text with what a terminal would obey spelled out (`\\x1b`), but for the characters to `keep`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text)


def printable_json(text: str) -> str:
    """The same of a document of JSON, which still means what it did (`\\u009b`)."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)
