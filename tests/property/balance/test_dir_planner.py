"""A plan for log dirs keeps every rule, makes no move without gain, has no move too many, and is over after it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.balance.dirs.broker_dirs import BalancedDir, BrokerDirs, DirMove, DirPlan, DirReplica, dir_loads
from penstock.balance.dirs.dir_layout import COUNTED_MIN
from penstock.balance.dirs.dir_planner import make_dir_plan
from tests.support.amount import usually

EXAMPLES = settings(max_examples=usually(37, long=150), deadline=None, derandomize=True)
MIB, GIB, PIB = 1 << 20, 1 << 30, 1 << 50
SIZES = (0, 1, MIB, 3 * MIB, 10 * MIB, 10 * MIB, 11 * MIB, 50 * MIB, GIB, 3 * GIB, PIB + 1, 7 * PIB)


@st.composite
def broker_dirs(draw: st.DrawFn, replicas_max: int = 30, dirs_max: int = 5, rooms: bool = True) -> BrokerDirs:
    count = draw(st.integers(1, dirs_max))
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    sizes = rng.choice((SIZES, SIZES[:2], SIZES[3:7], (rng.randint(0, GIB),), range(MIB, 100 * MIB)))
    online = [rng.random() < 0.85 for _ in range(count)]
    weights = [rng.random() if works else 0.0 for works in online]
    found: list[list[DirReplica]] = [[] for _ in online]
    if any(online):
        for number in range(draw(st.integers(0, replicas_max))):
            (at,) = rng.choices(range(count), weights)
            is_fixed = rng.random() < 0.1
            found[at].append(DirReplica(f"t{number % 3}", number, rng.choice(sizes), "id", is_fixed))
    room = (None, None, None, None, -5, 0, 5 * MIB, 20 * MIB, GIB, 1 << 60) if rooms else (None,)
    dirs = (BalancedDir(f"/{at}", tuple(found[at]), rng.choice(room), works) for at, works in enumerate(online))
    return BrokerDirs(rng.randint(0, 9), tuple(dirs))


def weight(size_bytes: int) -> int:
    return max(size_bytes, COUNTED_MIN)


def loads(broker: BrokerDirs, moves: Sequence[DirMove] = ()) -> dict[str, int]:
    """The weight in each log dir that is online, after these moves."""
    found = {one.path: sum(weight(each.size_bytes) for each in one.replicas) for one in broker.dirs if one.online}
    for move in moves:
        found[move.source] -= weight(move.size_bytes)
        found[move.target] += weight(move.size_bytes)
    return found


def is_even(broker: BrokerDirs, found: dict[str, int]) -> bool:
    weights = {weight(replica.size_bytes) for one in broker.dirs if one.online for replica in one.replicas}
    if len(weights) <= 1:
        return max(found.values(), default=0) - min(found.values(), default=0) <= max(weights, default=0)
    total, dirs = sum(found.values()), len(found)
    return all(9 * total <= 10 * dirs * load <= 11 * total for load in found.values())


def squares(found: dict[str, int]) -> int:
    return sum(load * load for load in found.values())


def after_moves(broker: BrokerDirs, moves: Sequence[DirMove]) -> BrokerDirs:
    targets = {(move.topic, move.index): move.target for move in moves}
    placed: dict[str, list[DirReplica]] = {one.path: [] for one in broker.dirs}
    for one in broker.dirs:
        for each in one.replicas:
            placed[targets.get((each.topic, each.index), one.path)].append(each)
    return BrokerDirs(broker.broker_id, tuple(replace(one, replicas=tuple(placed[one.path])) for one in broker.dirs))


def check_dir_rules(broker: BrokerDirs, plan: DirPlan) -> None:
    dirs = {one.path: one for one in broker.dirs}
    arrived: Counter[str] = Counter()
    assert len({(move.topic, move.index) for move in plan.moves}) == len(plan.moves)
    for move in plan.moves:
        (there,) = (r for r in dirs[move.source].replicas if (r.topic, r.index) == (move.topic, move.index))
        assert (move.broker_id, move.size_bytes, move.topic_id) == (broker.broker_id, there.size_bytes, "id")
        assert not there.stays and move.source != move.target
        assert dirs[move.source].online and dirs[move.target].online
        arrived[move.target] += weight(move.size_bytes)
    for path, size in arrived.items():
        room = dirs[path].room_bytes
        assert room is None or size <= room
    assert (plan.before, plan.after) == (dir_loads([broker]), dir_loads([after_moves(broker, plan.moves)]))


def check_gain(broker: BrokerDirs, plan: DirPlan) -> None:
    """Without any one of its moves the dirs are not even any more; where they are not, they are less even."""
    after = loads(broker, plan.moves)
    assert not plan.moves or squares(after) < squares(loads(broker))
    for move in plan.moves:
        without = {**after, move.source: after[move.source] + weight(move.size_bytes)}
        without[move.target] -= weight(move.size_bytes)
        assert not is_even(broker, without) if is_even(broker, after) else squares(without) > squares(after)


@EXAMPLES
@given(broker_dirs())
def test_a_plan_for_log_dirs_keeps_every_rule_and_no_move_is_without_gain(broker: BrokerDirs) -> None:
    plan = make_dir_plan([broker])
    check_dir_rules(broker, plan)
    check_gain(broker, plan)
    assert plan.is_empty or not is_even(broker, loads(broker))


@EXAMPLES
@given(broker_dirs(rooms=False))
def test_the_state_after_a_plan_for_log_dirs_needs_none(broker: BrokerDirs) -> None:
    assert make_dir_plan([after_moves(broker, make_dir_plan([broker]).moves)]).is_empty


@EXAMPLES
@given(st.lists(broker_dirs(replicas_max=8), max_size=3), st.randoms(use_true_random=False))
def test_a_plan_for_log_dirs_is_decided_by_the_state_alone(drawn: list[BrokerDirs], rng: random.Random) -> None:
    brokers = [replace(broker, broker_id=number) for number, broker in enumerate(drawn)]
    plan = make_dir_plan(brokers)
    shuffled = []
    for broker in brokers:
        dirs = [replace(one, replicas=tuple(rng.sample(one.replicas, len(one.replicas)))) for one in broker.dirs]
        shuffled.append(replace(broker, dirs=tuple(rng.sample(dirs, len(dirs)))))
    rng.shuffle(shuffled)
    assert make_dir_plan(shuffled) == plan
    assert plan.moves == tuple(move for broker in brokers for move in make_dir_plan([broker]).moves)


def every_placement(broker: BrokerDirs) -> Iterator[tuple[int, bool]]:
    """How many moves it has, and whether it is even: of every one for which there is room."""
    online = [one for one in broker.dirs if one.online]
    movable = [(one.path, replica) for one in online for replica in one.replicas if not replica.stays]
    room = {one.path: one.room_bytes for one in online}
    before = loads(broker)
    for targets in product(list(room), repeat=len(movable)):
        found, arrived, moves = dict(before), Counter[str](), 0
        for target, (source, replica) in zip(targets, movable, strict=True):
            if target != source:
                moves += 1
                found[source] -= weight(replica.size_bytes)
                found[target] += weight(replica.size_bytes)
                arrived[target] += weight(replica.size_bytes)
        if all((limit := room[path]) is None or size <= limit for path, size in arrived.items()):
            yield moves, is_even(broker, found)


def check_fewest(broker: BrokerDirs) -> None:
    plan = make_dir_plan([broker])
    fewest = min((moves for moves, even in every_placement(broker) if even), default=None)
    is_reached = is_even(broker, loads(broker, plan.moves))
    assert is_reached == (fewest is not None) and (fewest is None or len(plan.moves) == fewest)


@EXAMPLES
@given(broker_dirs(6, 3))
def test_no_placement_for_which_there_is_room_is_even_with_fewer_moves(broker: BrokerDirs) -> None:
    check_fewest(broker)


@pytest.mark.parametrize("dirs", [2, 3])
def test_no_placement_of_replicas_of_one_order_of_magnitude_is_even_with_fewer_moves(dirs: int) -> None:
    rng = random.Random(dirs)
    for _ in range(120):
        found: list[list[int]] = [[] for _ in range(dirs)]
        for _ in range(rng.randint(3, 8 if dirs == 2 else 6)):
            found[int(rng.random() ** 2 * dirs)].append(rng.randrange(3 * MIB, 13 * MIB, MIB))
        check_fewest(one_broker(*found))


@EXAMPLES
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.sampled_from([(0,), (GIB,), (PIB,), (0, 1, 1000, COUNTED_MIN)]),
)
def test_where_all_replicas_count_alike_their_numbers_differ_by_one_at_most(
    counts: list[int], sizes: tuple[int, ...]
) -> None:
    rng = random.Random(sum(counts))
    dirs = tuple(
        BalancedDir(f"/{at:02}", tuple(DirReplica("t", 100 * at + n, rng.choice(sizes)) for n in range(count)))
        for at, count in enumerate(counts)
    )
    plan = make_dir_plan([BrokerDirs(1, dirs)])
    after = [load.replicas for load in plan.after]
    assert max(after) - min(after) <= 1
    least, more = divmod(sum(counts), len(counts))
    over = sum(max(0, count - least - (more > 0)) for count in counts)
    assert len(plan.moves) == max(over, sum(max(0, least - count) for count in counts))


@EXAMPLES
@given(st.integers(0, 1 << 20), st.integers(2, 8))
def test_log_dirs_come_within_the_tolerance_where_there_are_small_replicas_enough(seed: int, dirs: int) -> None:
    rng = random.Random(seed)
    found: list[list[DirReplica]] = [[] for _ in range(dirs)]
    for number in range(40 * dirs):
        at = min(int(rng.paretovariate(0.8)) - 1, dirs - 1)
        found[at].append(DirReplica("t", number, int(min(rng.paretovariate(2.5), 20) * 1e8)))
    broker = BrokerDirs(1, tuple(BalancedDir(f"/{at}", tuple(replicas)) for at, replicas in enumerate(found)))
    plan = make_dir_plan([broker])
    assert is_even(broker, loads(broker, plan.moves))
    check_gain(broker, plan)


def one_broker(*dirs: Sequence[int], room: int | None = None) -> BrokerDirs:
    """Replicas of these sizes in each log dir."""
    return BrokerDirs(
        1,
        tuple(
            BalancedDir(
                f"/{at}", tuple(DirReplica("t", 100 * at + n, size, "id") for n, size in enumerate(sizes)), room
            )
            for at, sizes in enumerate(dirs)
        ),
    )


def test_one_log_dir_full_log_dirs_and_one_that_is_offline_get_no_plan() -> None:
    assert make_dir_plan([one_broker([PIB] * 9), one_broker(), one_broker([], [])]).is_empty
    assert make_dir_plan([one_broker([GIB] * 9, [], room=0)]).is_empty
    assert make_dir_plan([one_broker([GIB] * 9, [], room=GIB - 1)]).is_empty
    assert len(make_dir_plan([one_broker([GIB] * 9, [], room=2 * GIB)]).moves) == 2
    skewed = one_broker([GIB] * 9, [])
    assert make_dir_plan([replace(skewed, dirs=(skewed.dirs[0], replace(skewed.dirs[1], online=False)))]).is_empty


def test_replicas_above_a_pebibyte_and_without_a_byte_are_evened() -> None:
    plan = make_dir_plan([one_broker([3 * PIB, 2 * PIB, PIB, 0, 0], [0])])
    assert [(move.size_bytes, move.target) for move in plan.moves] == [(3 * PIB, "/1")]
    assert plan.bytes_to_copy == 3 * PIB
    assert [load.size_bytes for load in plan.after] == [3 * PIB, 3 * PIB]
    empty = make_dir_plan([one_broker([0] * 6, [], [])])
    assert [load.replicas for load in empty.after] == [2, 2, 2] and empty.bytes_to_copy == 0


def test_where_no_move_helps_replicas_are_exchanged() -> None:
    plan = make_dir_plan([one_broker([6 * GIB, 6 * GIB], [4 * GIB, 4 * GIB])])
    assert [move.size_bytes for move in plan.moves] == [6 * GIB, 4 * GIB]
    assert [load.size_bytes for load in plan.after] == [10 * GIB, 10 * GIB]


def test_a_replica_larger_than_all_others_stays_and_the_others_leave_its_log_dir() -> None:
    plan = make_dir_plan([one_broker([100 * GIB, GIB, GIB], [])])
    assert sorted(move.size_bytes for move in plan.moves) == [GIB, GIB]


@EXAMPLES
@given(broker_dirs(), st.randoms(use_true_random=False))
def test_nothing_comes_to_a_cordoned_log_dir_and_what_it_has_stays(broker: BrokerDirs, rng: random.Random) -> None:
    cordoned = {one.path for one in broker.dirs if rng.random() < 0.4}
    dirs = tuple(replace(one, cordoned=one.path in cordoned) for one in broker.dirs)
    plan = make_dir_plan([replace(broker, dirs=dirs)])
    assert cordoned.isdisjoint(path for move in plan.moves for path in (move.source, move.target))
