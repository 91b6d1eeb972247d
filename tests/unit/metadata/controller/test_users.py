"""Users' SCRAM credentials: each user's changes are made together or not at all, and strangers learn of no user."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, shown_lines
from metadata.records import (
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)
from metadata.scram import ImageCredentials
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    InvariantViolation,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from penstock.messages.repetitions import removed_before
from penstock.messages.security.users import AlterUserScramCredentialsRequest, ScramDeletion, ScramUpsertion
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from tests.unit.metadata.harness import EPOCH, Cluster

SHA_256, SHA_512 = ScramMechanism
MADE = {kind: ScramCredential.of_password(kind, "pw", b"salt", 4096) for kind in ScramMechanism}


def upsertion(user: str, kind: ScramMechanism = SHA_256) -> ScramUpsertion:
    return ScramUpsertion.of(user, MADE[kind])


def deletion(user: str, kind: ScramMechanism = SHA_256) -> ScramDeletion:
    return ScramDeletion(user, kind.value)


def view(cluster: Cluster) -> ImageCredentials:
    return ImageCredentials(lambda: cluster.image.scram)


def test_a_user_has_what_was_set_last_and_nothing_after_its_removal() -> None:
    cluster = Cluster()
    assert cluster.alter_users(upsertion("alice"), upsertion("alice", SHA_512), upsertion("bob")) == {
        "alice": None,
        "bob": None,
    }
    assert view(cluster).credential(SHA_256, "alice") == MADE[SHA_256]
    assert cluster.image.scram.of_user("alice") == [MADE[SHA_256], MADE[SHA_512]]
    newer = ScramCredential.of_password(SHA_256, "other", b"salt 2", 8192)
    cluster.alter_users(ScramUpsertion.of("alice", newer))
    assert view(cluster).credential(SHA_256, "alice") == newer
    assert cluster.alter_users(deletion("alice"), deletion("alice", SHA_512)) == {"alice": None}
    assert cluster.image.scram.of_user("alice") == []
    assert view(cluster).credential(SHA_256, "alice") not in (newer, MADE[SHA_256])
    assert view(cluster).credential(SHA_256, "bob") == MADE[SHA_256]


def test_another_controller_and_a_snapshot_have_the_same_users() -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("bob"), upsertion("alice"), upsertion("alice", SHA_512))
    cluster.fail_over()
    assert cluster.controller.to_image(EPOCH).scram == cluster.image.scram
    data = b"".join(encode_snapshot(cluster.image, 1))
    assert decode_snapshot(data, snapshot_id_of(cluster.image)).scram == cluster.image.scram
    delta = MetadataDelta.between(EMPTY_IMAGE, cluster.image)
    assert not delta.is_empty and delta.scram.credentials == cluster.image.scram.credentials
    cluster.alter_users(deletion("alice"))
    assert [key.user for key in sorted(cluster.image.scram.credentials)] == ["alice", "bob"]


def test_a_user_that_there_is_not_has_the_same_stand_in_for_ever_and_on_every_node() -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("alice"))
    before = view(cluster).credential(SHA_256, "nobody")
    cluster.alter_users(upsertion("bob"), upsertion("alice"))
    cluster.fail_over()
    cluster.alter_users(deletion("alice"), deletion("bob"), upsertion("carol"))
    assert view(cluster).credential(SHA_256, "nobody") == before
    assert sum(isinstance(record, ScramSecretRecord) for record in cluster.log) == 1
    other = Cluster(seed=2)
    other.alter_users(upsertion("alice"))
    assert view(other).credential(SHA_256, "nobody") != before


BAD = {
    "iterations below": (replace(upsertion("u"), iterations=4095), UnacceptableCredentialError),
    "iterations above": (replace(upsertion("u"), iterations=16385), UnacceptableCredentialError),
    "no salt": (replace(upsertion("u"), salt=b""), UnacceptableCredentialError),
    "a long salt": (replace(upsertion("u"), salt=bytes(1025)), UnacceptableCredentialError),
    "a short key": (replace(upsertion("u"), stored_key=b"x"), UnacceptableCredentialError),
    "a key of another mechanism": (replace(upsertion("u"), mechanism=2), UnacceptableCredentialError),
    "no name": (upsertion(""), UnacceptableCredentialError),
    "a long name": (upsertion("u" * 513), UnacceptableCredentialError),
    "a line break in the name": (upsertion("a\nb"), UnacceptableCredentialError),
    "the name of whoever has not logged in": (upsertion("ANONYMOUS"), UnacceptableCredentialError),
    "no mechanism": (replace(upsertion("u"), mechanism=0), UnsupportedSaslMechanismError),
    "a newer mechanism": (ScramDeletion("u", 3), UnsupportedSaslMechanismError),
    "nothing to delete": (deletion("u"), ResourceNotFoundError),
}


@pytest.mark.parametrize("name", BAD)
def test_a_change_that_cannot_be_made_is_refused_and_the_user_s_others_with_it(name: str) -> None:
    bad, error = BAD[name]
    cluster = Cluster()
    beside = upsertion(bad.user, SHA_512) if bad.mechanism != 2 else upsertion(bad.user)
    outcome = cluster.alter_users(beside, bad, upsertion("good"))
    assert type(outcome[bad.user]) is error and outcome["good"] is None
    assert {key.user for key in cluster.image.scram.credentials} == {"good"}


def test_a_user_that_is_named_twice_for_one_mechanism_is_refused() -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("alice"))
    outcome = cluster.alter_users(deletion("alice"), upsertion("alice"), upsertion("bob"), upsertion("bob"))
    assert {user: type(error) for user, error in outcome.items()} == dict.fromkeys(
        ("alice", "bob"), DuplicateResourceError
    )
    assert {key.user for key in cluster.image.scram.credentials} == {"alice"}


def test_a_request_without_changes_or_with_too_many_is_refused() -> None:
    cluster = Cluster()
    with pytest.raises(InvalidRequestError, match="no user"):
        cluster.alter_users()
    with pytest.raises(InvalidRequestError, match="at most"):
        cluster.alter_users(*(deletion(str(number)) for number in range(cluster.config.max_items_per_request + 1)))


def test_a_repeated_deletion_is_none_and_a_refused_one_stays_refused() -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("both"), upsertion("both", SHA_512), upsertion("one"))

    def asked(*changes: ScramDeletion | ScramUpsertion) -> dict[str, type[Exception]]:
        deletions = tuple(change for change in changes if isinstance(change, ScramDeletion))
        upsertions = tuple(change for change in changes if isinstance(change, ScramUpsertion))
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        answer = cluster.commit(cluster.controller.alter_user_scram_credentials(request, 0))
        return {one.user: type(one.error) for one in removed_before(answer).users}

    fine, missing = type(None), ResourceNotFoundError
    assert asked(deletion("both"), deletion("both", SHA_512)) == {"both": fine}
    assert asked(deletion("both"), deletion("both", SHA_512)) == {"both": fine}, "the first answer was lost"
    assert asked(deletion("one"), deletion("one", SHA_512)) == {"one": missing}, "nothing was deleted"
    assert asked(deletion("new", SHA_512), upsertion("new")) == {"new": missing}, "nothing was set"


def test_other_secrets_give_another_digest() -> None:
    cluster, other = Cluster(), Cluster()
    cluster.alter_users(upsertion("alice"))
    other.alter_users(ScramUpsertion.of("alice", ScramCredential.of_password(SHA_256, "pw", b"salt 2", 4096)))
    assert cluster.image.scram.secret == other.image.scram.secret
    assert cluster.image.digest() != other.image.digest()


def test_secrets_are_shown_to_nobody() -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("alice"))
    secrets = [cluster.image.scram.secret]
    secrets += [base64.b64encode(part).decode() for part in (MADE[SHA_256].stored_key, MADE[SHA_256].server_key)]
    texts = [line.decode() for line in shown_lines(cluster.image)]
    texts += [repr(cluster.image.scram), repr(cluster.log), repr(upsertion("alice")), repr(cluster.controller)]
    assert not [secret for secret in secrets for text in texts if secret in text]
    assert '"name":"alice","mechanism":1,"iterations":4096,"salt":"***","stored_key":"***"' in "".join(texts)


@pytest.mark.parametrize(
    "record",
    [
        RemoveUserScramCredentialRecord("nobody", 1),
        UserScramCredentialRecord("alice", 3, 4096, "", "", ""),
        UserScramCredentialRecord("alice", 1, 4096, "!", "", ""),
        ScramSecretRecord("another"),
    ],
)
def test_a_record_that_means_nothing_here_stops_the_node(
    record: RemoveUserScramCredentialRecord | UserScramCredentialRecord | ScramSecretRecord,
) -> None:
    cluster = Cluster()
    cluster.alter_users(upsertion("alice"))
    with pytest.raises(InvariantViolation):
        MetadataDelta(cluster.image).replay(record)
