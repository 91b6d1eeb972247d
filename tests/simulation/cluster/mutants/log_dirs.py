"""Mistakes of moves between log dirs of a broker (KIP-113) and with log dirs that hang, and stories that show them."""

from __future__ import annotations

from broker.apis.producing.delayed_produce import DelayedProduce
from broker.jobs.log_dir_moves.move_announcement import MoveAnnouncements
from broker.jobs.log_dir_moves.move_copy import MoveCopy
from broker.jobs.log_dir_moves.move_swap import MoveSwap
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.jobs.log_dir_watch import LogDirWatch
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.hosting.replica_states import Replica
from penstock.client.producer.sending.produce_link import ProduceLink
from storage.disk.log_dir_threads import LogDirThreads
from storage.log_dirs.future_directories import MovesAtStart
from storage.log_dirs.log_swap import Swap
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicKind, TopicPlan, WriterPlan

_MOVER = (OperatorPlan(Task.RELOCATE, "topic-0", 0.2),)
_MOVES = directed(operators=_MOVER, log_dirs=2)
_SLOW_MOVES = directed(
    *(Fault(1.5 + n / 2, Kind.KILL, 1 + n % 3, 0, 0.3, 0.5) for n in range(6)),
    operators=_MOVER,
    log_dirs=2,
    replica_alter_log_dirs_io_max_bytes_per_second=2_000,
)
"""Brokers are killed while copies are filled slowly."""
_AMOUNTS = (0.2502, 0.7503)
"""The amounts of a fault by which names hang in the first, or the second, of two log dirs."""
_IN_A_THREAD = "self._of.setdefault(log_dir, DirThreads(self._threads, self._name, 1)).run(work, done)"
_ON_THE_LOOP = f"""if self._name == "log-creation":
        work()
        __import__("asyncio").get_running_loop().call_soon(done, None)
    else:
        {_IN_A_THREAD}"""
"""Logs that are deleted keep their threads: the mistake is about new ones alone."""
_NO_CONTROLLER = directed(Fault(1.0, Kind.ISOLATE, 0, 0, 3.0, 0.5), operators=_MOVER, log_dirs=2)
"""The only controller is away."""

_HUNG_LEADERS = directed(
    *(Fault(1.0, Kind.HUNG_DISK, node, 0, 20.0, amount) for node in (1, 2) for amount in _AMOUNTS[:1]),
    log_dirs=2,
    log_dir_hang_ms_max=1_000,
    seconds=12.0,
)
_HUNG_WHILE_TOPICS_ARE_MADE = directed(
    Fault(0.2, Kind.HUNG_DISK, 1, 0, 20.0, _AMOUNTS[1]),
    operators=(OperatorPlan(Task.REMAKE, "topic-0", 3.0), OperatorPlan(Task.GROW, "topic-0", 3.0)),
    log_dirs=2,
    topics=(TopicPlan("topic-0", 4, 3, {}, TopicKind.REMADE),),
    log_dir_hang_ms_max=30_000,
    seconds=10.0,
)
"""The dir that hangs is not that of the metadata: a node whose metadata stands still hears of no topic. It has hung for
more than the second that I54 forgives when the topic is made anew or gets partitions."""
_HUNG_NEIGHBOURS = directed(
    Fault(1.0, Kind.HUNG_DISK, 1, 0, 20.0, _AMOUNTS[0]),
    log_dirs=2,
    topics=(TopicPlan("topic-0", 6, 3, {}),),
    writers=(
        WriterPlan("topic-0", 20, 0.1, 12, is_keyed=True),
        WriterPlan("topic-0", 0, 0.02, 6, is_keyed=True, batch_bytes=200),
    ),
    log_dir_hang_ms_max=30_000,
    replica_lag_time_max_ms=30_000,
    seconds=9.0,
    tellings=2,
)
"""For longer than anybody may wait, nothing commits that has a replica in one log dir of a node. One producer sends to
many partitions at a time, the other many small batches to each."""

LOG_DIRS = (
    Mutant(
        "the swap does not wait for the controller",
        "KIP-858",
        (
            Edit(MoveAnnouncements.acknowledged, "ACKNOWLEDGE_MS_MAX / 1000", "0"),
            Edit(MoveAnnouncements.acknowledged, "if self._directories.holds(announcement):", "if True:"),
            Edit(
                MoveAnnouncements.use,
                "move.announcement is None or not self._directories.holds(move.announcement)",
                "False",
            ),
        ),
        stories=_NO_CONTROLLER,
    ),
    Mutant(
        "a copy takes the place of its log before it has everything",
        "seam: what was appended since the copy was filled",
        (
            Edit(MoveCopy._copy, "found.next_offset >= end", "True"),
            Edit(MoveSwap._finish, "while partition.offline is why and not log.closed:", "while False:"),
            Edit(
                MoveSwap._finish,
                "copy.log_end_offset == log.log_end_offset and copy.log_start_offset == log.log_start_offset",
                "True",
            ),
            Edit(Swap.run, "LastKnown(True, log.log_end_offset, log.log_start_offset)", "LastKnown(recovery_point=0)"),
        ),
        stories=_SLOW_MOVES,
    ),
    Mutant(
        "a replica whose log dir has failed goes on taking requests",
        "this project's own: the state of a replica was a flag here and a dict there",
        (Edit(Replica.lose, "    partition.stop(why)", "    pass"),),
        (Kind.DEAD_DISK,),
        stories=directed(Fault(1.0, Kind.DEAD_DISK, 1, 0, 3.0, 0.5, Aim.LEADER), log_dirs=2),
    ),
    Mutant(
        "the renames of a swap are not synced",
        "ATC'20",
        (Edit(Swap._rename, "self._fs.fsync_dir(directory.path)", "pass"),),
        (Kind.POWER, Kind.POWER_ALL),
        stories=_MOVES,
    ),
    Mutant(
        "a start forgets the moves that were under way",
        "this project's own: the copies stay for ever",
        (Edit(MoveTable.__init__, "log_manager.futures.going_on.items()", "()"),),
        (Kind.KILL, Kind.POWER),
        stories=_SLOW_MOVES,
    ),
    Mutant(
        "a start takes a copy that is being filled for the log",
        "seam: which directory is the replica",
        (
            Edit(
                MovesAtStart._settle_future,
                "going_on[future.topic_partition] = MoveGoingOn(future, self._topic_id(future.future))",
                "home = MoveDirectory(homes.pop(), future.topic_partition, future.unique)\n"
                "        self._put_aside(home, home.home, DELETE_DIRECTORY_SUFFIX)\n"
                "        self._rename(future.future, future.home)\n"
                "        homes.append(future.log_dir)",
            ),
        ),
        (Kind.KILL, Kind.POWER),
        stories=_SLOW_MOVES,
    ),
    Mutant(
        "a disk that hangs is nobody's failure",
        "this project's own: leaders on a hung disk acked nothing for as long as it hung",
        (Edit(LogDirWatch.look, "call.age_ms >= self._limit_ms", "False"),),
        (Kind.HUNG_DISK,),
        stories=_HUNG_LEADERS,
    ),
    Mutant(
        "a new log is created on the event loop",
        "this project's own: a topic that was made beside a hung dir fenced its broker",
        (Edit(LogDirThreads.run, _IN_A_THREAD, _ON_THE_LOOP),),
        (Kind.HUNG_DISK,),
        stories=_HUNG_WHILE_TOPICS_ARE_MADE,
    ),
    Mutant(
        "a produce answer waits for all of its partitions",
        "this project's own: a log dir that hung held up every partition that shared a request with it",
        (
            Edit(
                DelayedProduce.all_added,
                "elif self._in_parts and self.left_ms > PART_AFTER_MS:",
                "elif False:",
            ),
        ),
        (Kind.HUNG_DISK,),
        stories=_HUNG_NEIGHBOURS,
    ),
    Mutant(
        "a producer counts requests that stepped aside",
        "this project's own: five requests with a partition that stands still are all that go out",
        (Edit(ProduceLink.in_flight, "len(self._unanswered)", "len(self._unanswered) + len(self._aside)"),),
        (Kind.HUNG_DISK,),
        stories=_HUNG_NEIGHBOURS,
    ),
    Mutant(
        "a follower waits for the flush of every log dir",
        "this project's own: a log dir that hung held up what the same fetcher copies to others",
        (
            Edit(
                ReplicaFetcher._until_flushed,
                "while flushing and not (self._flush_is_slow and self.core.has_others_to_ask_for):",
                "while flushing:",
            ),
        ),
        (Kind.HUNG_DISK,),
        stories=_HUNG_NEIGHBOURS,
    ),
)
