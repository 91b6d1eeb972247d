"""Every number on the command line has bounds, and digits inside a text are read by one parser."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from penstock.cli.configs import alter
from penstock.cli.console.consume_range import parse_moment_ms, parse_range
from penstock.cli.log_dirs import parse_log_dir_moves
from penstock.cli.main import app
from penstock.cli.moves.reassignments import parse_moves, parse_plan
from penstock.cli.output import when
from penstock.cli.records import parse_time_ms
from penstock.cli.topic_changes import parse_assignment
from penstock.errors import ConfigError
from penstock.written.numbers import INT32_MAX, INT64_MAX, parse_number


def commands(group: typer.Typer) -> Iterator[Any]:
    for command in group.registered_commands:
        yield command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance)


def numbers(command: Any) -> Iterator[tuple[str, Any]]:
    """The int parameters of a command's function: name and typer's description."""
    hints = typing.get_type_hints(inspect.unwrap(command), include_extras=True)
    for name, hint in hints.items():
        kinds = typing.get_args(hint)
        of = kinds[0] if kinds else None
        if int in (of, *typing.get_args(of)) and of is not bool:
            yield name, kinds[1]


def test_every_number_that_an_option_or_argument_takes_is_bounded_on_both_sides() -> None:
    found = {f"{one.__name__} {name}": info for one in commands(app) for name, info in numbers(one)}
    assert len(found) > 20
    assert [name for name, info in found.items() if info.min is None or info.max is None] == []


def test_the_walk_sees_a_number_without_bounds() -> None:
    def of_old(broker: typing.Annotated[int | None, typer.Option("--broker", min=0)] = None) -> None: ...

    assert [(name, info.min, info.max) for name, info in numbers(of_old)] == [("broker", 0, None)]
    assert "broker" in dict(numbers(alter))


@pytest.mark.parametrize("number", [0, 7, INT32_MAX, INT64_MAX])
def test_digits_are_the_number_up_to_the_bound(number: int) -> None:
    assert parse_number(str(number), number) == number == parse_number(f"000{number}", number)
    assert parse_number(str(number + 1), number) is None


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_000", "1.0", "٣", "9" * 5000, "0x1", "1e3"])
def test_what_is_no_plain_decimal_number_is_none(text: str) -> None:
    assert parse_number(text, INT64_MAX) is None


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "parse",
    [
        lambda: parse_moves([f"orders-0={HUGE}"]),
        lambda: parse_moves([f"orders-{HUGE}=0"]),
        lambda: parse_moves([f"orders-{INT32_MAX + 1}=0"]),
        lambda: parse_moves(["orders-٣=0"]),
        lambda: parse_plan('{"partitions":[{"topic":"t","partition":0,"replicas":[99999999999]}]}', "p.json"),
        lambda: parse_plan('{"partitions":[{"topic":"t","partition":-1,"replicas":[1]}]}', "p.json"),
        lambda: parse_plan('{"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}', "p.json"),
        lambda: parse_plan("[" * 100_000, "p.json"),
        lambda: parse_log_dir_moves([f"orders-{HUGE}=/x"]),
        lambda: parse_assignment(HUGE),
        lambda: parse_assignment("1:-2"),
        lambda: parse_time_ms(HUGE),
        lambda: parse_moment_ms("--from-time", HUGE, 0),
        lambda: parse_range(HUGE, "", "", 0),
        lambda: parse_range(f"-{HUGE}", "", "", 0),
    ],
)
def test_a_number_inside_a_text_that_is_out_of_range_is_one_configuration_error(parse: Any) -> None:
    with pytest.raises(ConfigError, match=r"must|needs|is no JSON"):
        parse()


@pytest.mark.parametrize("date", ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.998Z", "0001-01-02", "1970-01-01"])
def test_a_date_before_1970_is_the_beginning_of_time_and_no_sentinel(date: str) -> None:
    assert parse_time_ms(date) == 0 == parse_moment_ms("--from-time", date, 0)


@pytest.mark.parametrize("time_ms", [1_795_647_827_177_000, 2**63 - 1, 253_402_300_800_000])
def test_a_time_outside_the_calendar_is_shown_as_it_is(time_ms: int) -> None:
    assert (when(time_ms).raw, when(time_ms).text) == (time_ms, f"{time_ms} ms since 1970")
