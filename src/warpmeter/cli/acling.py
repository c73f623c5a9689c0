"""`warpmeter acls`: the rights of each component as a table, as commands, and on the broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpmeter import acls, authorizer
from warpmeter.acls import Component, Right, Rule
from warpmeter.authorizer import AclsError
from warpmeter.cli import common
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings
from warpmeter.terminal import printable

Named = Mapping[Component, str]
"""Principals by component, e.g. agent -> `User:agent`."""


def principals(given: Sequence[str], settings: Settings) -> Named:
    """COMPONENT=PRINCIPAL as given on the command line, with a word on what is odd. Raises AclsError."""
    known, found = acls.needs(settings), dict[Component, str]()
    for each in given:
        component, _, principal = each.partition("=")
        if component not in known:
            raise AclsError(f"there is no component {component!r}; they are: {', '.join(known)}")
        kind, _, name = principal.partition(":")
        if not kind or not name:
            raise AclsError(f"--principal {each}: give COMPONENT=TYPE:NAME, e.g. agent=User:agent")
        if name == "*":
            raise AclsError(f"--principal {each}: that is everybody; name who {component} is to the broker")
        if kind != "User":
            _note(f"--principal {each}: Kafka's own logins are all of type User; of type {kind} none is, unless the "
                  "brokers' principal.builder.class makes some")  # fmt: skip
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


@dataclass(frozen=True)
class Held:
    """The rights of one component's principal against the broker's rules.

    `had`: what lacked at first; `lacks`: what lacks now, `denied` those of it that a rule denies, with the rule.
    """

    component: Component
    principal: str
    had: Sequence[Right]
    lacks: Sequence[Right]
    denied: Mapping[Right, Rule]

    @property
    def granted(self) -> list[str]:
        """What lacked, and does no more."""
        return [str(right) for right in self.had if right not in self.lacks]


def hold(settings: Settings, named: Named, create: bool, as_json: bool) -> bool:
    """Hold the broker against what is needed, granting what lacks with `create`; whether nothing lacks now.

    Raises AclsError.
    """
    rules, rights = authorizer.found(settings.kafka), acls.needs(settings)
    had = {component: acls.lacking(rights[component], who, rules) for component, who in named.items()}
    if create and any(had.values()):
        rules = authorizer.granted(settings.kafka, _by_principal(named, had))
    held = [_held(component, who, had[component], rules) for component, who in named.items()]
    wanted = _by_principal(named, rights)
    more = [str(rule) for who, all_of_it in wanted.items() for rule in acls.beyond(all_of_it, who, rules)]
    if as_json:
        common.print_json(_document(held, create) | {"beyond": more})
    else:
        _told(held, create)
        for each in more:
            _note(f"more than is needed: {each}")
    return not any(each.lacks for each in held)


def _by_principal(named: Named, rights: Mapping[Component, Sequence[Right]]) -> dict[str, list[Right]]:
    found: dict[str, list[Right]] = {}
    for component, who in named.items():
        found.setdefault(who, []).extend(rights[component])
    return found


def _held(component: Component, who: str, had: Sequence[Right], rules: Sequence[Rule]) -> Held:
    lacks = acls.lacking(had, who, rules)
    denials = [(right, acls.denial(right, who, rules)) for right in lacks]
    return Held(component, who, had, lacks, {right: rule for right, rule in denials if rule})


def _document(held: Sequence[Held], create: bool) -> dict[str, Any]:
    lacking = {each.component: [str(right) for right in each.lacks] for each in held}
    denied = {each.component: {str(right): str(rule) for right, rule in each.denied.items()} for each in held}
    granted = {"granted": {each.component: each.granted for each in held}} if create else {}
    return granted | {"lacking": lacking, "denied": denied}


def _told(held: Sequence[Held], create: bool) -> None:
    shown = [(each, each.granted if create else [str(right) for right in each.lacks]) for each in held]
    rows = [(each.component, each.principal, right) for each, rights in shown for right in rights or ("nothing",)]
    common.print_table("", ("component", "principal", "granted" if create else "lacks"), rows)
    for each in held:
        for right, rule in each.denied.items():
            _note(f"{each.component}: {right} is denied by a rule: {rule}; no grant outweighs it: remove that rule")
        if create and (left := [str(right) for right in each.lacks if right not in each.denied]):
            _note(f"{each.component}: told to grant, and not shown by the broker: {', '.join(left)}; look again")


def _note(text: str) -> None:
    common.err.print(printable(text), markup=False, highlight=False, soft_wrap=True)
