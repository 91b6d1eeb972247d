"""Seeded campaigns on the core of atomic batches: applications whose lives follow each other write versions with some
writers each, lose answers, are killed and go on as zombies, while time passes, commits are late, and the coordinator
fails over in the middle of its turns.

At the end, when everything has come to rest:
- of the writers that a commit names all data is committed, or none; of all others none, whoever wrote it
- of each version at most one commit counts; what its life was told is what happened, and never changes
- a life after which another one has begun gets nothing done any more
- nothing is left open, in the coordinator and at the leaders
- applications and ids that nobody uses are forgotten

    python -m tests.support.batch_campaign --seeds 0-99 --steps 600
"""

from __future__ import annotations

import argparse
from random import Random
from typing import Any, Final

from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    InvalidUpdateVersionError,
    ProducerFencedError,
)
from penstock.messages.transactions.atomic_batches import (
    ONLY_WRITERS,
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
)
from penstock.messages.transactions.producers import AddPartitionsToTxnRequest, TransactionPartitions
from penstock.types import ProducerIdAndEpoch
from tests.support.batch_lives import Decision, Life, Writer
from tests.support.transaction_world import DAY_MS, World

TIMEOUT_MS: Final = 60_000
APPLICATIONS: Final = ("x", "y", "z")
WITHOUT_RUNS: Final = "z"
WRITERS_MAX: Final = 4
_TRY_AGAIN: Final = (CoordinatorNotAvailableError, ConcurrentTransactionsError)


class BatchCampaign:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.failures = Random(f"failures of {seed}")
        """Draws the failures of single writers, and moves no other draw."""
        self.world = World(self.random)
        self.lives: list[Life] = []
        self.zombies: list[Writer] = []
        self.writers: list[Writer] = []
        self.decisions: list[Decision] = []
        self.late: list[Life] = []
        """Lives without a run that were killed in a commit, which may come late."""
        self.versions = dict.fromkeys(APPLICATIONS, -1)
        """The last version that a life has known to be committed, as a checkpoint has it."""
        self.known: set[tuple[str, int]] = set()
        """Versions of which a life was told that they are committed."""

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        world, chance = self.world, self.random.random()
        if chance < 0.75:
            self._someone_acts()
        elif chance < 0.87:
            world.write_markers()
        elif chance < 0.90:
            world.late()
        elif chance < 0.92:
            world.ask_for_unknown()
        elif chance < 0.94:
            world.failover()
        elif chance < 0.95:
            world.commit_unknown()
        else:
            world.wait(self.random.choice((1, 1_000, TIMEOUT_MS // 2, TIMEOUT_MS)))
        if self.random.random() < 0.7:
            world.commit(everything=self.random.random() < 0.6)

    def _someone_acts(self) -> None:
        ready = [one for one in self.zombies if not one.waits]
        if ready and self.random.random() < 0.15:
            self._write(self.random.choice(ready))
            return
        if self.late and self.random.random() < 0.1:
            late = self.random.choice(self.late)
            if late.decision is not None:
                self._commit(late, late.decision)
            return
        alive = [life for life in self.lives if not life.is_over]
        if not alive or (len(alive) < 5 and self.random.random() < 0.02):
            application = self.random.choice(APPLICATIONS)
            version = self.versions[application] + 1
            run = "" if application == WITHOUT_RUNS else f"run-{len(self.lives)}"
            alive.append(Life(application, run, max(version - self.random.randint(0, 1), 0)))
            self.lives.append(alive[-1])
        self._act(self.random.choice(alive))

    def _act(self, life: Life) -> None:
        chance = self.random.random()
        if life.decision is not None:
            if not life.waits:
                self._commit(life, life.decision)
        elif chance < 0.25 and len(life.writers) < WRITERS_MAX:
            self._begin(life)
        elif chance < 0.75:
            ready = [one for one in life.writers if not one.waits and not one.is_done]
            if ready:
                writer = self.random.choice(ready)
                if self.failures.random() < 0.05:
                    self._give_up(life, writer)
                else:
                    self._go_on(writer)
        elif chance < 0.80:
            self._abort(life)
        elif chance < 0.82:
            self._killed(life)
        elif not life.waits:
            self._decide(life)

    def _killed(self, life: Life) -> None:
        """Its writers may go on for a while."""
        if not life.run and life.decision is not None and not life.is_over:
            self.late.append(life)
        life.is_over = True
        self.zombies += life.writers

    # -- writers -------------------------------------------------------------------------------------------------------

    def _ask(self, life: Life, request: Any, on_answer: Any) -> None:
        life.waits += 1

        def answered(answer: Any) -> None:
            life.waits -= 1
            on_answer(answer)

        self.world.ask(request, answered)

    def _done(self, life: Life, was_replaced: bool) -> None:
        """Something that it asked was done: the others that have begun are over, where runs are named."""
        if not life.run:
            return
        assert not was_replaced, "a run after which another one has begun got something done"
        if not life.is_replaced:  # else another one has begun since it asked
            for other in self.lives:
                is_other = other is not life and other.application == life.application
                other.is_replaced |= is_other and other.has_begun
            life.has_begun = True

    def _begin(self, life: Life) -> None:
        version, was_replaced = life.version, life.is_replaced

        def on_answer(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self._refused(life, answer)
                return
            self._done(life, was_replaced)
            if answer.is_committed:
                self._moved(life, version)
                return
            identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            assert all(other.identity != identity for other in self.writers), f"{identity} was given twice"
            writer = Writer(answer.transactional_id, identity)
            self.writers.append(writer)
            is_late = life.version != version or life.decision is not None or life.is_over
            (self.zombies if is_late else life.writers).append(writer)

        self._ask(life, BeginAtomicBatchRequest(life.application, version, TIMEOUT_MS, life.run), on_answer)

    def _give_up(self, life: Life, writer: Writer) -> None:
        """As a task that failed: it aborts what it wrote, and no other's."""
        writer.is_broken = True
        self._ask(
            life,
            AbortAtomicBatchRequest(life.application, ONLY_WRITERS, life.run, (writer.identity,)),
            lambda _: None,
        )

    def _go_on(self, writer: Writer) -> None:
        if writer.data and self.random.random() < 0.3:
            writer.is_done = True
        else:
            self._write(writer)

    def _write(self, writer: Writer) -> None:
        partition = self.random.choice(list(self.world.leaders))
        leader, guard, datum = self.world.leaders[partition], object(), object()
        producer = tuple(writer.identity)
        leader.guards[producer[0]] = guard, producer[1]
        writer.waits = True

        def on_answer(answer: Any) -> None:
            writer.waits = False
            error = answer if isinstance(answer, ApiError) else answer.transactions[0].partitions[0].error
            if error is None and leader.takes(writer.identity, datum, guard):
                writer.data.append((partition, datum))
            elif error is None:
                writer.is_broken = True
            else:
                assert isinstance(error, (*_TRY_AGAIN, ProducerFencedError, InvalidProducerIdMappingError)), error
                writer.is_broken |= not isinstance(error, CoordinatorNotAvailableError)

        asked = TransactionPartitions(writer.name, *writer.identity, (partition,), False, True)
        self.world.ask(AddPartitionsToTxnRequest((asked,)), on_answer)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _decide(self, life: Life) -> None:
        """With the writers that are done; others go on as the tasks of a stage that was repeated."""
        accepted = tuple(one for one in life.writers if one.is_done and not one.is_broken and not one.waits)
        if self.random.random() < 0.1 and accepted:
            accepted = accepted[1:]
        self.zombies += [one for one in life.writers if one not in accepted]
        life.decision = Decision(life.application, life.version, accepted)
        self.decisions.append(life.decision)
        self._commit(life, life.decision)

    def _commit(self, life: Life, decision: Decision) -> None:
        was_replaced = life.is_replaced

        def on_answer(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self._refused(life, answer, decision)
                return
            self._done(life, was_replaced)
            if not answer.was_committed:
                decision.reported = True
            self._moved(life, decision.version)

        identities = tuple(one.identity for one in decision.writers)
        self._ask(life, CommitAtomicBatchRequest(life.application, decision.version, identities, life.run), on_answer)
        if self.random.random() < 0.2:  # in the middle of its records
            self.world.failover()
            if self.random.random() < 0.5:
                self.world.wait(TIMEOUT_MS)

    def _abort(self, life: Life) -> None:
        def on_answer(answer: Any) -> None:
            if isinstance(answer, ProducerFencedError):
                self._killed(life)

        self._ask(life, AbortAtomicBatchRequest(life.application, life.version, life.run), on_answer)
        self.zombies += life.writers
        life.writers = []

    def _refused(self, life: Life, error: ApiError, decision: Decision | None = None) -> None:
        if isinstance(error, _TRY_AGAIN):
            return
        if isinstance(error, InvalidTxnStateError):
            assert decision is not None
            decision.reported = False
            self._again(life)
            return
        assert isinstance(error, (ProducerFencedError, InvalidUpdateVersionError)), error
        self._killed(life)

    def _again(self, life: Life) -> None:
        """The version is written anew, by other writers."""
        self.zombies += life.writers
        life.writers, life.decision = [], None

    def _moved(self, life: Life, version: int) -> None:
        """The version is committed, this life is told."""
        self.known.add((life.application, version))
        if life.version == version:
            self._again(life)
            life.version = version + 1
        self.versions[life.application] = max(self.versions[life.application], version)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Everything comes to rest, and is compared; the versions that are committed."""
        world = self.world
        for _ in range(60):
            world.commit(everything=True)
            world.ask_for_unknown()
            world.commit(everything=True)
            while world.sent:
                world.write_markers()
                world.commit(everything=True)
            world.wait(TIMEOUT_MS)
        assert world.shard.statistics().ongoing == world.shard.statistics().prepared == 0
        assert not any(data for leader in world.leaders.values() for data in leader.open.values()), "left open"
        committed = {one for one in self.writers if self._end_of(one)}
        by_version: dict[tuple[str, int], Decision] = {}
        for decision in self.decisions:
            ends = {one in committed for one in decision.writers if one.data}
            assert len(ends) < 2, "a part of a version is committed"
            assert decision.reported is not True or ends <= {True}, "told that it is committed, and it is not"
            assert decision.reported is not False or ends <= {False}, "told that it is not committed, and it is"
            if decision.reported or True in ends:
                before = by_version.setdefault((decision.application, decision.version), decision)
                assert before is decision, "a version is committed twice"
        for known in self.known:
            asked = (one for one in self.decisions if (one.application, one.version) == known)
            may_be = (one for one in asked if one.reported is not False)
            assert any(all(one in committed for one in each.writers if one.data) for each in may_be), (
                "told that a version is committed, and no decision is"
            )
        counted = {one for decision in by_version.values() for one in decision.writers}
        assert committed <= counted, "a writer is committed that no decision names"
        world.wait(5 * DAY_MS)
        last = world.shard.statistics()
        assert (last.transactional_ids, last.applications, last.bytes) == (0, 0, 0)
        return len(by_version)

    def _end_of(self, writer: Writer) -> bool:
        ends = {self.world.leaders[partition].ends[datum] for partition, datum in writer.data}
        assert len(ends) < 2, "a part of a writer is committed"
        return ends == {True}


def run(seed: int, steps: int) -> int:
    """One campaign. A failure says how to run it again."""
    campaign = BatchCampaign(seed)
    try:
        for _ in range(steps):
            campaign.step()
        return campaign.finish()
    except Exception as error:
        error.add_note(f"python -m tests.support.batch_campaign --seeds {seed}-{seed} --steps {steps}")
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    versions = [run(seed, options.steps) for seed in range(int(first), int(last or first) + 1)]
    print(f"{len(versions)} seeds of {options.steps} steps: {sum(versions)} versions committed")


if __name__ == "__main__":
    main()
