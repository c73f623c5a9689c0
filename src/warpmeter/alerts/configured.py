"""The rules in force: those that are shipped, as the settings change them, and those of the settings."""

import math
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from warpmeter.alerts.rule import NAME, OWN, Parameter, Rule, RuleError, asked, builtin
from warpmeter.alerts.words import EXPRESSION
from warpmeter.lexer import LexError, Token, lexemes
from warpmeter.settings import AlertRule, Alerts

NUMBERS: Final = ("Int", "UInt", "Float")
LONGEST_S: Final = 7 * 86_400.0
"""Of for_s, keep_s and every_s."""


def rules(settings: Alerts) -> tuple[Rule, ...]:
    """All that are in force, by name; raises RuleError for one that cannot be meant."""
    known = dict(builtin())
    for given in settings.rules:
        if [each.name for each in settings.rules].count(given.name) > 1:
            raise RuleError(f"{given.name!r} stands there twice: each rule once")
        if given.name in builtin():
            known[given.name] = _changed(known[given.name], given)
        else:
            known[given.name] = _own(given)
    off = {given.name for given in settings.rules if not given.enabled}
    return tuple(rule for name, rule in sorted(known.items()) if name not in off)


def stray(settings: Alerts, matchers: Mapping[str, str]) -> str:
    """Why matchers of the settings fit no alert, '' where they may: they name a rule that is none, or switched off."""
    wanted = matchers.get("rule", "")
    known = {rule.name for rule in rules(settings)}
    if not wanted or wanted.startswith(EXPRESSION) or wanted in known:
        return ""
    close = get_close_matches(wanted, known, 1)
    return f"there is no rule {wanted}" + (f"; did you mean {close[0]}?" if close else ": `warpmeter alerts rules`")


def _changed(rule: Rule, given: AlertRule) -> Rule:
    """A built-in rule, with what is given."""
    if given.sql and rule.name in OWN:
        raise RuleError(f"{rule.name} takes no sql: the evaluation tells it of itself")
    sql = given.sql or rule.sql
    rule = replace(
        rule, sql=_checked(rule.name, sql) if given.sql else sql, summary=given.summary or rule.summary,
        description=given.description or rule.description, severity=given.severity or rule.severity,
        unit=given.unit or rule.unit, labels=_labels(given),
        parameters=rule.parameters if not given.sql else _of(rule.name, sql, {}, rule.values()),
    )  # fmt: skip
    return _timed(_set(rule, given), given)


def _own(given: AlertRule) -> Rule:
    """A rule of the settings alone."""
    if not NAME.fullmatch(given.name):
        raise RuleError(f"{given.name!r} is no name: lower-case letters, digits and '-', a letter first, at most 63")
    if not given.sql or not given.summary:
        close = get_close_matches(given.name, builtin(), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise RuleError(f"{given.name} is no built-in rule, and one of your own needs sql and summary{hint}")
    sql = _checked(given.name, given.sql)
    rule = Rule(
        name=given.name, meaning=given.description or given.summary, severity=given.severity or "warning", sql=sql,
        summary=given.summary, description=given.description, unit=given.unit, labels=_labels(given),
        parameters=_of(given.name, sql, given.parameters, {}),
    )  # fmt: skip
    return _timed(rule, given)


def _checked(name: str, sql: str) -> str:
    """One statement that reads; raises RuleError."""
    bare = sql.strip().removesuffix(";").strip()
    try:
        words = [each for each in lexemes(bare.encode()) if each.token is Token.WORD]
        several = any(each.token is Token.SYMBOL and each.text == ";" for each in lexemes(bare.encode()))
    except LexError as error:
        raise RuleError(f"{name}: its sql cannot be read from byte {error.at} on") from error
    if several or not words or words[0].text.upper() not in ("SELECT", "WITH"):
        raise RuleError(f"{name}: its sql must be one SELECT, with a row for each subject in the condition")
    return bare


def _of(name: str, sql: str, given: Mapping[str, object], known: Mapping[str, str]) -> tuple[Parameter, ...]:
    """What SQL of one's own asks for."""
    types = asked(sql)
    values = {**known, **{key: _text(value) for key, value in given.items()}}
    if lacking := types.keys() - values.keys():
        raise RuleError(f"{name}: its sql asks for {', '.join(sorted(lacking))}, and parameters does not give it")
    return tuple(Parameter(key, kind, values[key]) for key, kind in types.items())


def _set(rule: Rule, given: AlertRule) -> Rule:
    """With the thresholds that are given."""
    values = rule.values()
    if unknown := sorted(given.parameters.keys() - values.keys()):
        has = ", ".join(f"{name} = {value}" for name, value in values.items()) or "none"
        raise RuleError(f"{rule.name} has no parameter {unknown[0]}; it has {has}")
    told = {name: _text(value) for name, value in given.parameters.items()}
    for each in rule.parameters:
        if each.name in told and each.type.startswith(NUMBERS):
            _number(rule.name, each, told[each.name])
    return replace(
        rule,
        parameters=tuple(replace(each, value=told.get(each.name, each.value)) for each in rule.parameters),
    )


def _number(rule: str, parameter: Parameter, text: str) -> None:
    try:
        fits = math.isfinite(float(text)) and (parameter.type.startswith("Float") or float(text).is_integer())
        fits = fits and not (parameter.type.startswith("UInt") and float(text) < 0)
    except ValueError:
        fits = False
    if not fits:
        raise RuleError(f"{rule}: {parameter.name} = {text} is no {parameter.type}: {parameter.meaning}")


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _labels(given: AlertRule) -> dict[str, str]:
    for name in given.labels:
        if name in ("rule", "severity") or not name.isidentifier():
            raise RuleError(
                f"{given.name}: {name!r} is no label of one's own: letters, digits and '_', not rule, severity"
            )
    return dict(given.labels)


def _timed(rule: Rule, given: AlertRule) -> Rule:
    for_s, keep_s, every_s = (
        _seconds(rule, name, getattr(given, name), getattr(rule, name)) for name in ("for_s", "keep_s", "every_s")
    )
    return replace(rule, for_s=for_s, keep_s=keep_s, every_s=every_s)


def _seconds(rule: Rule, name: str, given: float | None, otherwise: float) -> float:
    if given is None:
        return otherwise
    if not 0 <= given <= LONGEST_S:
        raise RuleError(f"{rule.name}: {name} = {given:g} must lie between 0 and {LONGEST_S:g} s, a week")
    return float(given)
