"""Sets the quotas of a user, a client or an address, and deletes them, as `penstock quotas alter` and `delete` do.

A change names one owner of quotas (an entity: a user, a client id, both, or an address) and the keys that are set or
deleted. Not here: quotas as they are (`pages/security.py`), how a change is planned, confirmed and done once
(`changing.py`), and what a broker does at a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.console.change import ChangeField, ChangePlan, ConsoleChange, shell_command
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.messages.security.quotas import ADDRESS_KEYS, DEFAULT_NAME, QUOTA_KEYS, QuotaEntity

EVERY: Final = "*"
ENTITY_OPTIONS: Final = {"user": "--user", "client_id": "--client-id", "ip": "--ip"}
KEYS: Final = {**QUOTA_KEYS, **ADDRESS_KEYS}
ENTITY_FIELDS: Final = (
    ChangeField("user", "User", f"{EVERY}: each without a quota of its own"),
    ChangeField("client_id", "Client id", f"{EVERY}: likewise"),
    ChangeField("ip", "Address", f"{EVERY}: likewise; alone"),
)


def _entity(fields: Fields) -> QuotaEntity:
    given = {name: fields.text(name) for name in ENTITY_OPTIONS if fields.has(name)}
    if not given:
        raise FieldError("user", "is missing: give a user, a client id, or both, or an address")
    if "ip" in given and len(given) > 1:
        raise FieldError("ip", "a quota of an address is of nobody else: give it alone")
    return QuotaEntity(**{name: DEFAULT_NAME if text == EVERY else text for name, text in given.items()})


def _entity_words(fields: Fields) -> list[str]:
    return [word for name, option in ENTITY_OPTIONS.items() if fields.has(name) for word in (option, fields.text(name))]


def _values(fields: Fields) -> dict[str, float]:
    """The quotas that a form sets."""
    found = {key: value for key in KEYS if (value := fields.maybe_decimal(key)) is not None}
    if not found:
        raise FieldError(next(iter(KEYS)), "nothing to set; give a number for one of them")
    return found


def shown_limit(value: float | None) -> str:
    """A limit as a person and a command write it."""
    return "none" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


async def _alter(
    asked: PageAsked, entity: QuotaEntity, values: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    results = await asked.admin.alter_client_quotas({entity: values}, validate_only=validate_only)
    for error in results.values():
        if error is not None:
            raise error


async def _plan_set(asked: PageAsked) -> ChangePlan:
    entity, values = _entity(asked.fields), _values(asked.fields)
    has = (await asked.admin.describe_client_quotas()).get(entity, {})
    await _alter(asked, entity, values, validate_only=True)
    words = ["quotas", "alter", *_entity_words(asked.fields)]
    for key, value in values.items():
        words += [f"--{key.replace('_', '-')}", shown_limit(value)]
    lines = tuple(f"{key}: {shown_limit(has.get(key))} → {shown_limit(value)}" for key, value in values.items())
    return ChangePlan(
        f"Each broker holds {entity} to these limits. Others of its limits stay.",
        shell_command(asked, words),
        lines,
        must_hold=lines,
    )


async def _set(asked: PageAsked) -> str:
    await _alter(asked, _entity(asked.fields), _values(asked.fields))
    return "/quotas"


async def _plan_delete(asked: PageAsked) -> ChangePlan:
    entity = _entity(asked.fields)
    has = (await asked.admin.describe_client_quotas()).get(entity)
    if not has:
        raise FieldError("user", f"there are no quotas of {entity}")
    lines = tuple(f"{key}: {shown_limit(value)} → none" for key, value in sorted(has.items()))
    return ChangePlan(
        f"All quotas of {entity} are removed. The next nearest ones count for it.",
        shell_command(asked, ["quotas", "delete", *_entity_words(asked.fields)]),
        lines,
        must_hold=lines,
    )


async def _delete(asked: PageAsked) -> str:
    entity = _entity(asked.fields)
    has = (await asked.admin.describe_client_quotas()).get(entity, {})
    if has:
        await _alter(asked, entity, dict.fromkeys(has))
    return "/quotas"


QUOTA_CHANGES: Final = (
    ConsoleChange(
        "/alter-quota",
        "Set quotas",
        (*ENTITY_FIELDS, *(ChangeField(key, key, text, "number") for key, text in KEYS.items())),
        _plan_set,
        _set,
    ),
    ConsoleChange("/delete-quota", "Delete quotas", ENTITY_FIELDS, _plan_delete, _delete),
)
