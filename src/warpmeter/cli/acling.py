"""`warpmeter acls`: the rights of each component as a table, as commands, and on the broker."""

from collections.abc import Mapping, Sequence
from typing import Any

from warpmeter import acls, authorizer
from warpmeter.acls import Component, Right
from warpmeter.authorizer import AclsError
from warpmeter.cli import common
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings

Named = Mapping[Component, str]
"""Principals by component, e.g. agent -> `User:agent`."""


def principals(given: Sequence[str], settings: Settings) -> Named:
    """COMPONENT=PRINCIPAL as given on the command line. Raises AclsError."""
    known, found = acls.needs(settings), dict[Component, str]()
    for each in given:
        component, _, principal = each.partition("=")
        if component not in known:
            raise AclsError(f"there is no component {component!r}; they are: {', '.join(known)}")
        if ":" not in principal.strip(":"):
            raise AclsError(f"--principal {each}: give COMPONENT=TYPE:NAME, e.g. agent=User:agent")
        found[component] = principal
    return found


def show(settings: Settings, as_json: bool) -> None:
    """What each component needs; asks no broker."""
    rights = acls.needs(settings)
    if as_json:
        common.print_json(
            [{"component": c, "for": acls.MEANINGS[c], **vars(right)} for c in rights for right in rights[c]]
        )
        return
    rows = [
        (component, kind, operation, name)
        for component, found in rights.items()
        for (kind, operation), names in _together(found).items()
        for name in _listed(names, settings)
    ]
    common.print_table("", ("component", "on", "operation", "name"), rows)
    for component, meaning in acls.MEANINGS.items():
        common.err.print(f"{component}: {meaning}", markup=False, highlight=False, soft_wrap=True)


def _together(rights: Sequence[Right]) -> Mapping[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        found.setdefault((right.kind, right.operation), []).append(right.name + "*" * right.prefixed)
    return found


def _listed(names: Sequence[str], settings: Settings) -> Sequence[str]:
    every = {topic.full_name(settings.kafka.topic_prefix) for topic in TOPICS.values()}
    return [f"all of {settings.kafka.topic_prefix}.…"] if every == set(names) else names


def commands(settings: Settings, named: Named) -> None:
    """Calls of Kafka's own tool that grant it all, for who may."""
    for component, principal in named.items():
        for line in acls.shell(settings.kafka, principal, acls.needs(settings)[component]):
            common.out.print(line, markup=False, highlight=False, soft_wrap=True)


def hold(settings: Settings, named: Named, create: bool, as_json: bool) -> bool:
    """Hold the broker against what is needed, granting what lacks with `create`; whether all is granted now.

    Raises AclsError.
    """
    rules, rights = authorizer.found(settings.kafka), acls.needs(settings)
    lacks = {component: acls.lacking(rights[component], who, rules) for component, who in named.items()}
    if create:
        for component, missing in lacks.items():
            authorizer.create(settings.kafka, named[component], missing)
    wanted: dict[str, list[Right]] = {}
    for component, who in named.items():
        wanted.setdefault(who, []).extend(rights[component])
    more = [str(rule) for who, all_of_it in wanted.items() for rule in acls.beyond(all_of_it, who, rules)]
    said: dict[str, Any] = {c: [str(right) for right in missing] for c, missing in lacks.items()}
    if as_json:
        common.print_json({"granted" if create else "lacking": said, "beyond": more})
    else:
        rows = [(c, who, right) for c, who in named.items() for right in said[c] or ("nothing",)]
        common.print_table("", ("component", "principal", "granted" if create else "lacks"), rows)
        for each in more:
            common.err.print(f"more than is needed: {each}", markup=False, highlight=False, soft_wrap=True)
    return create or not any(lacks.values())
