"""A random walk over changes of users: after every change and every fail-over the image is that of a simple model."""

from __future__ import annotations

import random

import pytest

from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, image_records
from metadata.scram import ScramKey
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.messages.security.users import ScramDeletion, ScramUpsertion
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from tests.support.amount import usually
from tests.unit.metadata.harness import Cluster

NAMES = ("anna", "bob", "")
MADE = [ScramCredential.of_password(kind, str(n), b"salt", 4096 + n) for kind in ScramMechanism for n in range(3)]
STEPS = 60


def wanted(rng: random.Random) -> ScramDeletion | ScramUpsertion:
    name = rng.choice(NAMES)
    if rng.random() < 0.4:
        return ScramDeletion(name, rng.choice((1, 2, 3)))
    return ScramUpsertion.of(name, rng.choice(MADE))


def done(model: dict[ScramKey, ScramCredential], changes: list[ScramDeletion | ScramUpsertion]) -> set[str]:
    """Makes each user's changes in the model, or none of them; the users whose changes were made."""
    made = set()
    for user in {change.user for change in changes}:
        own = [change for change in changes if change.user == user]
        keys = [ScramKey(user, change.mechanism) for change in own]
        is_good = len(set(keys)) == len(keys) and all(
            key in model if isinstance(change, ScramDeletion) else user != ""
            for key, change in zip(keys, own, strict=True)
        )
        if not is_good:
            continue
        made.add(user)
        for key, change in zip(keys, own, strict=True):
            if isinstance(change, ScramDeletion):
                del model[key]
            else:
                model[key] = change.credential(ScramMechanism(change.mechanism))
    return made


@pytest.mark.parametrize("seed", range(usually(3, long=8)))
def test_users_are_what_was_asked_for(seed: int) -> None:
    rng, cluster = random.Random(seed), Cluster(seed=seed)
    model: dict[ScramKey, ScramCredential] = {}
    secrets = set()
    for _ in range(STEPS):
        changes = [wanted(rng) for _ in range(rng.randint(1, 4))]
        made = done(model, changes)
        outcome = cluster.alter_users(*changes)
        assert {user for user, error in outcome.items() if error is None} == made
        if rng.random() < 0.2:
            cluster.fail_over()
        image = cluster.image
        assert image.scram.credentials == model == cluster.controller.to_image(1).scram.credentials
        secrets |= {image.scram.secret} - {""}
        again = MetadataDelta(EMPTY_IMAGE)
        for record in image_records(image):
            again.replay(record)
        assert again.apply(image.offset, image.epoch).scram == image.scram
        if image.offset >= 0:
            assert decode_snapshot(b"".join(encode_snapshot(image, 1)), snapshot_id_of(image)).scram == image.scram
    assert len(secrets) == 1
