"""The lives of the battery's nodes: one script by hand, with every kind of change, and others drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.types import TopicPartition
from tests.battery.nodes import FAR, IDS, KEYED, OLD, ONE, TWO
from tests.battery.workload import WRITERS, Workload
from tests.support.storage import log_named

NEW_ID = "E" * 22
Script = Callable[[Workload], None]


def every_change(node: Workload) -> None:
    """Appends, rolls, flushes, truncations, retention, cleaning, checkpoints, deletion, a restart; four logs."""
    node.open()
    node.create(ONE, IDS[ONE])
    node.append(ONE, 3, 0)
    node.flush(ONE)
    node.append(ONE, 9, 0)
    node.create(TWO, IDS[TWO])
    node.append(TWO, 1, 5, per_batch=2)
    node.flush(ONE)
    node.checkpoint()
    node.assign_epoch(ONE, 1)
    node.append(ONE, 14, 1)
    node.flush(TWO)
    node.flush(ONE)
    _truncate(node)
    _follow(node)
    _compact(node)
    _transact(node)
    _retain(node)
    node.close(9)
    _after_a_restart(node)
    _compact_again(node)
    node.append(ONE, 1, 7)
    node.close(11)


def _truncate(node: Workload) -> None:
    node.append(ONE, 3, 2)
    node.truncate(ONE, 10)
    node.append(ONE, 1, 3, per_batch=4)
    node.flush(ONE)


def _follow(node: Workload) -> None:
    node.follow(TWO, 20, 5)
    node.flush(TWO)
    node.checkpoint()
    node.truncate(TWO, 3)
    node.follow(TWO, 8, 6)
    node.flush(TWO)
    node.start_over(TWO, 40)
    node.append(TWO, 2, 7)
    node.flush(TWO)


def _compact(node: Workload) -> None:
    node.create(KEYED, IDS[KEYED])
    node.append_keys(KEYED, "axXbcabcaBabcdabe", 0)
    node.assign_epoch(KEYED, 1)
    node.append_keys(KEYED, "abAd", 1)
    node.flush(KEYED)
    node.clean()
    node.read(KEYED)
    node.append_keys(KEYED, "ab", 1)
    node.change_files(KEYED)


def _transact(node: Workload) -> None:
    """Two producers, one of which aborts; a transaction over a roll and a cleaning; one that stays open."""
    one, two = WRITERS
    node.transact(KEYED, "ab", 1, one)
    node.transact(KEYED, "cA", 1, two)
    node.end(KEYED, 1, one, commits=False)
    node.transact(KEYED, "b", 1, one)
    node.roll(KEYED)
    node.end(KEYED, 1, two, commits=True, bumps=False)
    node.end(KEYED, 1, one, commits=False)
    node.transact(KEYED, "d", 1, two)
    node.flush(KEYED)
    node.append_keys(KEYED, "abcab", 1)
    node.flush(KEYED)
    node.clean()
    node.change_files(KEYED)
    node.end(KEYED, 1, two, commits=False)
    node.transact(ONE, "x", 4, one)
    node.append(ONE, 2, 4)
    node.end(ONE, 4, one, commits=False)
    node.transact(ONE, "y", 4, two)
    node.flush(ONE)


def _retain(node: Workload) -> None:
    node.append(ONE, 26, 4)
    node.flush(ONE)
    node.remove_oldest(ONE, 1)
    node.append(ONE, 1, 4)
    node.change_files(ONE)
    node.advance_log_start(ONE, 13)
    node.read(ONE)
    node.checkpoint()


def _after_a_restart(node: Workload) -> None:
    node.open()
    node.read(ONE)
    node.read(KEYED)
    node.create(OLD, IDS[OLD])
    node.append(OLD, 8, 2)
    node.flush(OLD)
    node.stray(OLD)
    node.delete(TWO)
    node.create(TWO, NEW_ID)
    node.append(TWO, 3, 0)
    node.flush(TWO)
    node.append(ONE, 1, 5)
    node.flush(ONE)
    node.roll(ONE)
    node.remove_full(ONE)
    node.change_files(ONE)


def _compact_again(node: Workload) -> None:
    node.append_keys(KEYED, "CcabdeaADbdeaedb", 2)
    node.flush(KEYED)
    node.now_ms += 5_000
    node.clean()
    node.change_files(KEYED)
    node.append_keys(KEYED, "edbd", 2)
    node.flush(KEYED)
    node.now_ms += 5_000
    node.clean()
    node.change_files(KEYED)


def deletion_before_the_flush(node: Workload) -> None:
    """A replica outside of the ISR: its leader deletes records that it has not flushed yet."""
    node.open()
    node.create(ONE, IDS[ONE])
    node.append(ONE, 2, 0)
    node.flush(ONE)
    node.append(ONE, 4, 0)
    node.advance_log_start(ONE, 5)
    node.checkpoint()
    node.append(ONE, 1, 0)
    node.flush(ONE)
    node.close(9)


def entries_far_apart(node: Workload) -> None:
    """A log whose index has few entries: it is cut above, at and below them, rolled, retained, stopped and read."""
    node.open()
    node.create(FAR, IDS[FAR])
    node.follow(FAR, 210, 0)
    node.flush(FAR)
    node.checkpoint()
    node.truncate(FAR, 205)
    node.append(FAR, 2, 1)
    node.truncate(FAR, 200)
    node.follow(FAR, 15, 2)
    node.flush(FAR)
    node.roll(FAR)
    node.append(FAR, 1, 2)
    node.flush(FAR)
    node.truncate(FAR, 190)
    node.follow(FAR, 12, 3)
    node.close(9)
    node.open()
    node.read(FAR)
    node.follow(FAR, 240, 4)
    node.flush(FAR)
    node.remove_oldest(FAR, 1)
    node.change_files(FAR)
    node.read(FAR)
    node.close(11)


def removals(node: Workload) -> None:
    """A log is set aside as stray, another is deleted, and a third gets its name."""
    node.open()
    node.create(OLD, IDS[OLD])
    node.append(OLD, 2, 2)
    node.flush(OLD)
    node.stray(OLD)
    node.create(TWO, IDS[TWO])
    node.append(TWO, 1, 0)
    node.flush(TWO)
    node.delete(TWO)
    node.create(TWO, NEW_ID)
    node.append(TWO, 3, 0)
    node.flush(TWO)
    node.close(9)


def drawn(seed: int, steps: int = 60) -> Script:
    """A script of random steps on four logs, of which one has few index entries."""

    def script(node: Workload) -> None:
        random = Random(seed)
        node.open()
        epochs = dict.fromkeys((ONE, TWO, KEYED, FAR), 0)
        for topic_partition in epochs:
            node.create(topic_partition, IDS[topic_partition])
        for _ in range(steps):
            topic_partition = random.choice(list(epochs))
            epochs[topic_partition] += random.random() < 0.1
            _draw(node, topic_partition, epochs[topic_partition], random)
        node.close(9)

    return script


def _draw(node: Workload, topic_partition: TopicPartition, epoch: int, random: Random) -> None:
    log = log_named(node.manager, topic_partition) if node.manager is not None else None
    if log is None:
        return
    somewhere = random.randint(log.log_start_offset, log.log_end_offset)
    steps: list[tuple[int, Callable[[], None]]] = [
        (8, lambda: node.append_keys(topic_partition, random.choice(("abAc", "bcd", "aaB", "deDf")), epoch)),
        (2, lambda: node.follow(topic_partition, random.randint(1, 9), epoch, key=b"f")),
        (2 * (topic_partition == FAR), lambda: node.follow(topic_partition, random.randint(150, 250), epoch)),
        (2, lambda: node.wait(random.choice((10, 600, 2_000)))),
        (6, lambda: node.flush(topic_partition)),
        (2, lambda: node.roll(topic_partition)),
        (2, lambda: node.truncate(topic_partition, somewhere)),
        (1, lambda: node.start_over(topic_partition, log.log_end_offset + 5)),
        (2, lambda: node.advance_log_start(topic_partition, somewhere)),
        (2, lambda: node.remove_oldest(topic_partition, 1)),
        (6, lambda: node.transact(topic_partition, random.choice(("a", "bA", "cd")), epoch, random.choice(WRITERS))),
        (5, lambda: node.end(topic_partition, epoch, random.choice(WRITERS), commits=random.random() < 0.4)),
        (4, node.clean),
        (4, lambda: node.change_files(topic_partition)),
        (2, node.checkpoint),
        (2, lambda: node.read(topic_partition)),
        (1, lambda: (node.close(5), node.open())[0]),
    ]
    random.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()
