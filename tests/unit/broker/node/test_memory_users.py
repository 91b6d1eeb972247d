"""Users are set by Admin, told by every broker, and kept over the restart of all nodes."""

from __future__ import annotations

from functools import partial

import pytest

from metadata.scram import ImageCredentials, scram_record
from penstock import AsyncAdmin
from penstock.client.admin.admin_types import (
    UserDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from penstock.errors import ResourceNotFoundError
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from tests.support.memory_cluster import MemoryCluster, run_in_memory

SHA_256, SHA_512 = (one.sasl_name for one in ScramMechanism)


def knows(cluster: MemoryCluster, user: str, password: str) -> list[bool]:
    """By node: whether the user may log in with the password."""
    views = [ImageCredentials(partial(getattr, node.loader.image, "scram")) for node in cluster.nodes]
    return [view.credential(ScramMechanism.SCRAM_SHA_256, user).is_of(password) for view in views]


def test_users_and_passwords_come_and_go_and_outlive_all_nodes() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start(3)
        async with AsyncAdmin(cluster.bootstrap(3), environment=cluster.clients()) as admin:
            both = [UserScramCredentialUpsertion("anna", "pw", kind) for kind in (SHA_256, SHA_512)]
            assert await admin.alter_user_scram_credentials(both) == {"anna": None}
            assert knows(cluster, "anna", "pw") == [True] * 3
            assert knows(cluster, "anna", "other") == [False] * 3
            assert await admin.describe_user_scram_credentials() == {
                "anna": UserDescription("anna", {SHA_256: 4096, SHA_512: 4096})
            }
            assert await admin.describe_user_scram_credentials(["nobody"]) == {}
            results = await admin.alter_user_scram_credentials(
                [UserScramCredentialDeletion("anna", SHA_512), UserScramCredentialDeletion("nobody")]
            )
            assert results["anna"] is None and isinstance(results["nobody"], ResourceNotFoundError)
            found = await admin.describe_user_scram_credentials(["anna", "anna"])
            assert found["anna"].mechanisms == {SHA_256: 4096}
            content = await admin.describe_metadata()
            assert "anna" in "".join(content.records) and len({d.sha256 for d in await admin.metadata_digests()}) == 1
        await cluster.stop()
        await cluster.start()
        assert knows(cluster, "anna", "pw") == [True] * 3

    run_in_memory(1, story)


def test_a_cluster_begins_with_the_users_of_the_controller_that_leads_first_and_gets_them_once() -> None:
    first = scram_record("admin", ScramCredential.of_password(ScramMechanism.SCRAM_SHA_256, "first", b"salt", 4096))

    async def story(cluster: MemoryCluster) -> None:
        cluster.format([first])
        await cluster.start()
        assert knows(cluster, "admin", "first") == [True] * 3
        async with AsyncAdmin(cluster.bootstrap(3), environment=cluster.clients()) as admin:
            await admin.alter_user_scram_credentials([UserScramCredentialDeletion("admin")])
        await cluster.stop()
        await cluster.start()
        assert knows(cluster, "admin", "first") == [False] * 3

    run_in_memory(2, story)


BAD = [
    (lambda: UserScramCredentialUpsertion("", "pw"), ValueError),
    (lambda: UserScramCredentialUpsertion("u", ""), ValueError),
    (lambda: UserScramCredentialUpsertion("u", "p" * 1025), ValueError),
    (lambda: UserScramCredentialUpsertion("u", b"pw"), TypeError),
    (lambda: UserScramCredentialUpsertion("u", "pw", "SCRAM-SHA-1"), ValueError),
    (lambda: UserScramCredentialUpsertion("u", "pw", iterations=1), ValueError),
    (lambda: UserScramCredentialDeletion(7), TypeError),
]


@pytest.mark.parametrize(("make", "error"), BAD)
def test_what_cannot_be_a_user_is_refused_before_anybody_asks(make: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()  # type: ignore[operator]


def test_a_password_is_not_shown() -> None:
    assert "pw-secret" not in repr(UserScramCredentialUpsertion("u", "pw-secret"))
