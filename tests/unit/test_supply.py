"""What an extra installs is followed through all that it asks for, and taken out of the whole list."""

from tests.supply import UNKNOWN, closure, licences, part


def test_an_extra_has_what_it_needs_and_nothing_of_others() -> None:
    agent, web = closure("agent"), closure("web")
    assert {"confluent-kafka", "protobuf", "psutil", "py-spy"} <= agent
    assert not {"pandas", "nicegui", "clickhouse-connect", "warpmeter", "pytest"} & agent
    assert {"starlette", "clickhouse-connect"} <= web, "what is asked for by what is asked for"
    assert "uvloop" in web, "by way of another's extra: uvicorn[standard]"
    assert agent | web <= closure("all")


def test_a_part_of_the_list_is_whole_in_itself() -> None:
    a, b = ({"name": name, "bom-ref": f"{name}==1"} for name in ("A_b", "c"))
    graph = [{"ref": "A_b==1", "dependsOn": ["c==1"]}, {"ref": "c==1"}]
    listed = {"bomFormat": "CycloneDX", "components": [a, b], "dependencies": graph}
    assert part(listed, frozenset({"a-b"})) == {
        "bomFormat": "CycloneDX", "components": [a], "dependencies": [{"ref": "A_b==1", "dependsOn": []}],
    }  # fmt: skip


def test_a_licence_is_what_is_said_and_else_not_known() -> None:
    said = [{"license": {"id": "MIT"}}, {"license": {"name": "MIT  License"}}, {"license": {"id": "MIT"}}]
    assert licences({"licenses": said}) == "MIT, MIT License"
    assert licences({"licenses": [{"expression": "MIT OR Apache-2.0"}]}) == "MIT OR Apache-2.0"
    assert licences({}) == UNKNOWN
