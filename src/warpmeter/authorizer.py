"""Access rules on the broker: which there are, to grant what `acls` says, and what we ourselves may do."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from warpmeter import acls, bus
from warpmeter.acls import Kind, Right, Rule
from warpmeter.settings import Kafka

TIMEOUT_S: Final = 15.0
SEEN_EVERY_S: Final = 0.2
ANY: Final[Any] = None
"""In a filter: of any name (the library's types do not know it)."""
_ABSENT: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND, KafkaError.COORDINATOR_NOT_AVAILABLE}
)
_KINDS: Final = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}


class AclsError(Exception):
    """The broker is away, refuses, or knows no rights; the message says which, and what to do."""


def found(kafka: Kafka) -> list[Rule]:
    """The rules of the broker. Raises AclsError."""
    every = AclBindingFilter(
        ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
    )
    try:
        admin = bus.admin(kafka)  # held until it has answered
        rules = [_rule(each) for each in admin.describe_acls(every, request_timeout=TIMEOUT_S).result()]
        may = rules or AclOperation.DESCRIBE in _on_cluster(admin)  # who may not look is shown none, without an error
    except KafkaException as error:
        raise _explained(error, kafka, "Describe") from error
    if not may:
        raise AclsError(_refused(kafka, "Describe"))
    return rules


def create(kafka: Kafka, principal: str, rights: Iterable[Right]) -> None:
    """Grant `rights`; what is granted already stays. Raises AclsError."""
    bindings = [binding(right, principal) for right in rights]
    if not bindings:
        return
    try:
        admin = bus.admin(kafka)
        for future in admin.create_acls(bindings, request_timeout=TIMEOUT_S).values():
            future.result()
    except KafkaException as error:
        raise _explained(error, kafka, "Alter") from error


def granted(kafka: Kafka, rights: Mapping[str, Iterable[Right]]) -> list[Rule]:
    """Grant `rights` by principal; the broker's rules once it shows them: one that denies stands as before.

    Raises AclsError.
    """
    for principal, each in rights.items():
        create(kafka, principal, each)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        rules = found(kafka)  # of any broker: they learn of it one after the other
        lacks = [(right, who) for who, each in rights.items() for right in acls.lacking(each, who, rules)]
        if all(acls.denial(right, who, rules) for right, who in lacks) or time.monotonic() > deadline:
            return rules
        time.sleep(SEEN_EVERY_S)


def mine(kafka: Kafka, rights: Sequence[Right]) -> list[Right]:
    """Which of `rights` the broker does not give us, who ask. Raises AclsError.

    It takes no right but those. A right on all names of a prefix is asked of the topics there are; of topics and groups
    that are not there, nobody can tell.
    """
    try:
        with bus.asking(kafka) as admin:
            topics, groups = _asked(rights, admin.list_topics(timeout=TIMEOUT_S).topics)
            given = bus.patiently(lambda: _given(admin, topics, groups))
    except KafkaException as error:
        raise AclsError(bus.said(error, kafka)) from error
    return [right for right in rights if any(_withheld(right, where, of) for where, of in given.items())]


def binding(right: Right, principal: str) -> AclBinding:
    """A right as the library has it."""
    pattern = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
    operation = next(each for each in AclOperation if _title(each) == right.operation)
    return AclBinding(_KINDS[right.kind], right.name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


Given = dict[tuple[Kind, str], frozenset[str] | None]


def _asked(rights: Sequence[Right], there: Iterable[str]) -> tuple[list[str], list[str]]:
    prefixes = tuple(each.name for each in rights if each.prefixed)
    topics = {each.name for each in rights if each.kind == "topic" and not each.prefixed}
    topics |= {name for name in there if prefixes and name.startswith(prefixes)}
    return sorted(topics), sorted({each.name for each in rights if each.kind == "group"})


def _given(admin: AdminClient, topics: list[str], groups: list[str]) -> Given:
    how: dict[str, Any] = {"include_authorized_operations": True, "request_timeout": TIMEOUT_S}
    given: Given = {}
    if topics:
        answers = admin.describe_topics(TopicCollection(topics), **how)
        given |= {("topic", name): _operations(future) for name, future in answers.items()}
    if groups:
        told = admin.describe_consumer_groups(groups, **how)
        given |= {("group", name): _operations(future) for name, future in told.items()}
    return given


def _operations(future: "Future[Any]") -> frozenset[str] | None:
    """What we may do there; None where there is no such topic or group, or the broker does not say."""
    try:
        return frozenset(_title(each) for each in future.result().authorized_operations or ()) or None
    except KafkaException as error:
        if error.args[0].code() in bus.FORBIDDEN:
            return frozenset()
        if error.args[0].code() in _ABSENT:
            return None
        raise


def _withheld(right: Right, where: tuple[Kind, str], given: frozenset[str] | None) -> bool:
    kind, name = where
    if given is None or right.operation == "Create" or right.kind != kind:
        return False
    meant = name.startswith(right.name) if right.prefixed else name == right.name
    return meant and right.operation not in given


def _on_cluster(admin: AdminClient) -> Collection[AclOperation]:
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=TIMEOUT_S)
    return asked.result().authorized_operations or ()


def _title(operation: AclOperation) -> str:
    return operation.name.title().replace("_", "")


def _rule(told: AclBinding) -> Rule:
    kind, pattern, operation = told.restype, told.resource_pattern_type, told.operation
    assert isinstance(kind, ResourceType)
    assert isinstance(pattern, ResourcePatternType)
    assert isinstance(operation, AclOperation)
    allows = told.permission_type == AclPermissionType.ALLOW
    return Rule(
        kind.name.lower(), told.name, pattern.name.lower(), told.principal, _title(operation), allows, told.host
    )


def _refused(kafka: Kafka, operation: str) -> str:
    return (
        f"Kafka at {kafka.bootstrap_servers} does not let {bus.login(kafka)} {operation.lower()} access rules: it "
        f"takes {operation} on the cluster, or a super user; `warpmeter acls --print` prints the commands for one"
    )


def _explained(error: KafkaException, kafka: Kafka, operation: str) -> AclsError:
    code = error.args[0].code()
    if code == KafkaError.SECURITY_DISABLED:
        return AclsError(
            f"Kafka at {kafka.bootstrap_servers} has no authorizer: everybody may do everything there; set "
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer on brokers and controllers"
        )
    if code in bus.FORBIDDEN:
        return AclsError(_refused(kafka, operation))
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return AclsError(f"Kafka at {kafka.bootstrap_servers} knows no access rules: everybody may do everything there")
    return AclsError(bus.said(error, kafka))
