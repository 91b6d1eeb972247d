"""Sends a record, resets the offsets of a group, and cancels a move."""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.client.admin.groups.group_types import OffsetReset
from penstock.console.change import (
    PLAN_LINES_MAX,
    ChangeField,
    ChangePlan,
    ConsoleChange,
    raise_refusals,
    shell_command,
    text_lines,
)
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked, address_of
from penstock.plain_text import plain_json
from penstock.types import TopicPartition
from penstock.written.numbers import INT32_MAX, INT64_MAX
from penstock.written.times import MOMENT_FORMS, moment_ms

TARGETS: Final = ("earliest", "latest", "offset", "shift", "time")


# -- a record ----------------------------------------------------------------------------------------------------------


def _record(fields: Fields) -> dict[str, Any]:
    """The record that a form describes, in the words of `penstock produce --json`."""
    is_null = fields.flag("null")
    value = fields.text("value", "").replace("\r\n", "\n")
    if is_null and value:
        raise FieldError("null", "the value is given, too; keep one")
    headers = []
    for line in text_lines(fields, "headers"):
        name, equals, text = line.partition("=")
        if not equals or not name:
            raise FieldError("headers", f"{line[:64]!r} must be name=value")
        headers.append({"name": name, "value": text})
    record: dict[str, Any] = {"key": fields.text("key", "") or None, "value": None if is_null else value}
    partition = fields.maybe_number("partition", 0, INT32_MAX)
    if partition is not None:
        record["partition"] = partition
    return {**record, "headers": headers} if headers else record


async def _plan_send(asked: PageAsked) -> ChangePlan:
    topic, record = asked.fields.text("topic"), _record(asked.fields)
    described = await asked.admin.describe_topic(topic)
    if record.get("partition", 0) >= described.partition_count:
        raise FieldError("partition", f"topic {topic} has 0 to {described.partition_count - 1}")
    line = plain_json(json.dumps(record))
    return ChangePlan(
        f"A record is written to {topic}, and acked by all in-sync replicas.",
        shell_command(asked, ["produce", "--json"], [topic], line),
        (line,),
    )


async def _send(asked: PageAsked) -> str:
    topic, record = asked.fields.text("topic"), _record(asked.fields)
    headers = [(one["name"], one["value"].encode()) for one in record.get("headers", ())]
    key, value = record["key"], record["value"]
    async with asked.link.producer(acks="all") as producer:
        sent = await producer.send(
            topic,
            value=None if value is None else value.encode(),
            key=None if key is None else key.encode(),
            headers=headers,
            partition=record.get("partition"),
        )
        written = await sent
    return address_of("/record", topic=topic, partition=written.partition, offset=written.offset)


# -- the offsets of a group --------------------------------------------------------------------------------------------


def _target(asked: PageAsked) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `reset_group_offsets`, and the options of the command."""
    fields, at = asked.fields, asked.fields.choice("to", TARGETS, "")
    if at in ("earliest", "latest"):
        return {"to": at}, [f"--to-{at}"]
    if at == "offset":
        offset = fields.number("at")
        return {"to": offset}, ["--to-offset", str(offset)]
    if at == "shift":
        by = fields.number("at", None, -INT64_MAX, INT64_MAX)
        return {"shift_by": by}, ["--shift-by", str(by)]
    if (at_ms := moment_ms(fields.text("at"), asked.wall_ms)) is None:
        raise FieldError("at", f"must be {MOMENT_FORMS}")
    return {"to_time_ms": at_ms}, ["--to-datetime", str(at_ms)]


async def _reset(asked: PageAsked, *, dry_run: bool) -> tuple[dict[TopicPartition, OffsetReset], list[str]]:
    fields, (target, options) = asked.fields, _target(asked)
    topic, number = fields.text("topic", ""), fields.maybe_number("partition", 0, INT32_MAX)
    partitions = None
    if topic:
        every = [TopicPartition(topic, p.partition) for p in (await asked.admin.describe_topic(topic)).partitions]
        partitions = every if number is None else [TopicPartition(topic, number)]
    elif number is not None:
        raise FieldError("topic", "is missing: a partition is one of a topic")
    options += ["--topic", topic if number is None else f"{topic}:{number}"] if topic else ["--all-topics"]
    if "shift_by" in target:
        has = await asked.admin.group_offsets(fields.text("group"))
        for at in partitions if partitions is not None else has:
            if has.get(at) is None:
                raise FieldError("to", f"the group has committed nothing of {at.topic}:{at.partition} to shift")
    found = await asked.admin.reset_group_offsets(fields.text("group"), partitions, **target, dry_run=dry_run)
    if not found:
        raise FieldError("topic", f"is missing: group {fields.text('group')!r} has committed nothing")
    return found, options


async def _plan_reset(asked: PageAsked) -> ChangePlan:
    found, options = await _reset(asked, dry_run=True)
    group = asked.fields.text("group")
    lines = [f"{at.topic}:{at.partition}: {_offset_line(one)}" for at, one in sorted(found.items())]
    target, _ = _target(asked)
    at_ms = target.get("to_time_ms")
    return ChangePlan(
        f"{len(found)} committed offsets of group {group} are moved. It must have no members.",
        shell_command(asked, ["groups", "reset-offsets", *options], [group]),
        tuple(lines[:PLAN_LINES_MAX]),
        must_hold=()
        if "to" in target and isinstance(target["to"], str)
        else tuple(lines),  # the ends move by themselves
        fixed={} if at_ms is None else {"at": str(at_ms)},
    )


def _offset_line(one: OffsetReset) -> str:
    before = "nothing" if one.before is None else str(one.before.offset)
    nearest = "" if one.wanted == one.offset else f" (there is no {one.wanted})"
    return f"{before} → {one.offset}{nearest}{f', refused: {one.error}' if one.error is not None else ''}"


async def _perform_reset(asked: PageAsked) -> str:
    found, _ = await _reset(asked, dry_run=False)
    raise_refusals({at: one.error for at, one in found.items()}, "were moved")
    return address_of("/group", id=asked.fields.text("group"))


# -- a move ------------------------------------------------------------------------------------------------------------


def _moving(fields: Fields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.number("partition", None, 0, INT32_MAX))


async def _plan_cancel(asked: PageAsked) -> ChangePlan:
    at = _moving(asked.fields)
    moving = (await asked.admin.list_partition_reassignments()).get(at)
    if moving is None:
        raise FieldError("partition", f"{at.topic}:{at.partition} is not being moved")
    before = [one for one in moving.replicas if one not in moving.adding_replicas]
    lines = (f"replicas {list(moving.replicas)} → {before}",)
    return ChangePlan(
        f"The move of {at.topic}:{at.partition} is cancelled; what was copied is deleted.",
        shell_command(asked, ["reassignments", "delete"], [f"{at.topic}:{at.partition}"]),
        lines,
        must_hold=lines,
    )


async def _cancel(asked: PageAsked) -> str:
    raise_refusals(await asked.admin.alter_partition_reassignments({_moving(asked.fields): None}), "were cancelled")
    return "/moves"


TOPIC: Final = ChangeField("topic", "Topic", is_needed=True)
OTHER_CHANGES: Final = (
    ConsoleChange(
        "/send-record",
        "Send a record",
        (
            TOPIC,
            ChangeField("partition", "Partition", "empty: by the key, or any", "number"),
            ChangeField("key", "Key", "empty: none"),
            ChangeField("value", "Value", "", "lines"),
            ChangeField("null", "A null value, which deletes the key from a compacted topic", kind="flag"),
            ChangeField("headers", "Headers", "name=value, one a line", "lines"),
        ),
        _plan_send,
        _send,
    ),
    ConsoleChange(
        "/reset-offsets",
        "Reset a group's offsets",
        (
            ChangeField("group", "Group", is_needed=True),
            ChangeField("topic", "Topic", "empty: all that it has committed"),
            ChangeField("partition", "Partition", "empty: all of the topic", "number"),
            ChangeField("to", "To", choices=TARGETS, is_needed=True),
            ChangeField("at", "Offset, shift or time", "41, -100, 2026-01-31T12:00:00Z, -2h"),
        ),
        _plan_reset,
        _perform_reset,
    ),
    ConsoleChange(
        "/cancel-move",
        "Cancel a move",
        (TOPIC, ChangeField("partition", "Partition", kind="number", is_needed=True)),
        _plan_cancel,
        _cancel,
    ),
)
