"""Blocks of producer ids: the next thousand for a registered broker, and never an id twice (KIP-730)."""

from __future__ import annotations

import pytest

from metadata.controller.controller import Controller
from metadata.controller.producer_ids import BLOCK_SIZE, IDS_PER_EPOCH, NEXT_PRODUCER_ID_MAX
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage, image_records
from metadata.records import ProducerIdsRecord, Record
from penstock.errors import BrokerIdNotRegisteredError, InvariantViolation, StaleBrokerEpochError, UnknownServerError
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from raft.quorum_state import EPOCH_MAX
from tests.unit.metadata.harness import EPOCH, Cluster


def replayed(image: MetadataImage, *records: Record) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + len(records), EPOCH)


def test_each_block_begins_where_the_one_before_ended_whoever_asks_and_whoever_is_the_controller() -> None:
    cluster = Cluster(2)
    assert cluster.allocate(1) == range(0, 1_000)
    assert cluster.allocate(1) == range(1_000, 2_000), "an answer that was lost costs its block"
    assert cluster.allocate(2) == range(2_000, 3_000)
    cluster.fail_over()
    assert cluster.allocate(2) == range(3_000, 4_000)
    assert cluster.log[-1] == ProducerIdsRecord(4_000, 2, cluster.image.brokers[2].broker_epoch)


def test_a_quorum_made_anew_from_an_older_metadata_log_gives_no_id_again() -> None:
    cluster = Cluster(1)
    cluster.leader_epoch, old = 7, cluster.image
    lost = cluster.allocate(1), cluster.allocate(1)
    assert lost[0].start == 7 * IDS_PER_EPOCH and lost[1].start == lost[0].stop
    cluster.image, cluster.leader_epoch = old, 8
    cluster.fail_over()
    assert cluster.allocate(1).start == 8 * IDS_PER_EPOCH


def test_an_epoch_that_needs_more_ids_than_it_has_goes_on_with_those_of_later_ones() -> None:
    cluster = Cluster(1)
    image = replayed(cluster.image, ProducerIdsRecord(3 * IDS_PER_EPOCH - 1))
    cluster.controller = Controller(image, cluster.config, cluster._rng, 0)
    request = AllocateProducerIdsRequest(1, image.brokers[1].broker_epoch)
    assert cluster.controller.allocate_producer_ids(request, 0, 2).response.first_producer_id == 3 * IDS_PER_EPOCH - 1


def test_the_last_epoch_of_all_has_its_ids() -> None:
    cluster = Cluster(1)
    cluster.leader_epoch = EPOCH_MAX
    assert cluster.allocate(1).stop <= NEXT_PRODUCER_ID_MAX - IDS_PER_EPOCH


def test_a_block_that_is_not_committed_yet_is_not_given_to_the_next_broker_either() -> None:
    cluster = Cluster(2)
    request = AllocateProducerIdsRequest(1, cluster.image.brokers[1].broker_epoch)
    decided = cluster.controller.allocate_producer_ids(request, 0, 0)
    cluster.controller.replay(decided.records[0], cluster.next_offset)
    again = cluster.controller.allocate_producer_ids(request, 0, 0)
    assert (decided.response.first_producer_id, again.response.first_producer_id) == (0, BLOCK_SIZE)


def test_the_block_is_in_image_snapshot_and_digest() -> None:
    cluster = Cluster(1)
    before = cluster.image.digest()
    cluster.allocate(1)
    assert cluster.image.next_producer_id == BLOCK_SIZE and cluster.image.digest() != before
    assert cluster.controller.to_image(EPOCH).digest() == cluster.image.digest()
    copy = replayed(EMPTY_IMAGE, *image_records(cluster.image))
    assert copy.next_producer_id == BLOCK_SIZE and copy.digest() == cluster.image.digest()


def test_an_image_without_blocks_has_no_record_of_them() -> None:
    assert not any(isinstance(record, ProducerIdsRecord) for record in image_records(Cluster(1).image))


def test_a_delta_with_nothing_but_a_block_is_not_empty() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(ProducerIdsRecord(BLOCK_SIZE))
    assert not delta.is_empty


@pytest.mark.parametrize("next_producer_id", [-1, 0, BLOCK_SIZE - 1, BLOCK_SIZE])
def test_a_record_that_gives_ids_a_second_time_is_refused_when_it_is_replayed(next_producer_id: int) -> None:
    image = replayed(EMPTY_IMAGE, ProducerIdsRecord(BLOCK_SIZE))
    with pytest.raises(InvariantViolation, match="given before"):
        replayed(image, ProducerIdsRecord(next_producer_id))


def test_a_broker_that_is_not_registered_gets_none() -> None:
    cluster = Cluster(1)
    with pytest.raises(BrokerIdNotRegisteredError):
        cluster.controller.allocate_producer_ids(AllocateProducerIdsRequest(2, 0), 0, 0)


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_broker_under_another_epoch_gets_none(difference: int) -> None:
    cluster = Cluster(1)
    epoch = cluster.image.brokers[1].broker_epoch
    with pytest.raises(StaleBrokerEpochError):
        cluster.controller.allocate_producer_ids(AllocateProducerIdsRequest(1, epoch + difference), 0, 0)


def test_a_broker_that_is_still_fenced_gets_a_block() -> None:
    cluster = Cluster(0)
    cluster.register(1)
    assert cluster.image.brokers[1].fenced and cluster.allocate(1) == range(0, BLOCK_SIZE)


@pytest.mark.parametrize("left", [0, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1])
def test_no_id_of_64_bits_and_a_sign_overflows(left: int) -> None:
    cluster = Cluster(1)
    first = NEXT_PRODUCER_ID_MAX - left
    image = replayed(cluster.image, ProducerIdsRecord(first))
    cluster.controller = Controller(image, cluster.config, cluster._rng, 0)
    request = AllocateProducerIdsRequest(1, image.brokers[1].broker_epoch)
    if left < BLOCK_SIZE:
        with pytest.raises(UnknownServerError, match="no producer ids are left"):
            cluster.controller.allocate_producer_ids(request, 0, 0)
    else:
        result = cluster.controller.allocate_producer_ids(request, 0, 0)
        assert result.response == AllocateProducerIdsResponse(first, BLOCK_SIZE)
        assert first + BLOCK_SIZE <= NEXT_PRODUCER_ID_MAX
