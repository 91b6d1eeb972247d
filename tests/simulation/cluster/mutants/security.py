"""Mistakes of who may do what: ACLs, log-ins, and nodes that speak as others (I82 to I85)."""

from __future__ import annotations

from broker.authentication.senders import Senders
from broker.authentication.sessions import Sessions
from broker.authorization.acl_index import AclIndex, _Table
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.grpc.callers import SessionCallers
from metadata.acls import AclTable
from metadata.image import image_records
from metadata.scram import ScramTable
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import Aim, Fault, Kind, Plan, ReaderPlan, SecurityPlan, WriterPlan


def _secured(*plans: Plan, session_ms: int = 0, forges: bool = False) -> tuple[Plan, ...]:
    return with_parts(plans, security=SecurityPlan(2, 0.05, session_ms, forges))


_FEW = (WriterPlan("topic-0", 0, 0.5, 1, is_keyed=False),)
_SELDOM = (ReaderPlan("topic-0", 0.5),)
_CALM = _secured(*directed(seconds=4.0, writers=_FEW, readers=_SELDOM))
_FORGED = _secured(*directed(seconds=2.0, writers=_FEW, readers=_SELDOM), forges=True)
_RESTARTED = _secured(
    *directed(
        Fault(2.5, Kind.KILL, 0, 1, 0.3, 0.5, Aim.CONTROLLER),
        Fault(3.5, Kind.KILL, 2, 1, 0.3, 0.5),
        seconds=5.0,
        writers=_FEW,
        readers=_SELDOM,
        metadata_log_max_record_bytes_between_snapshots=500,
        metadata_max_retention_bytes=1,
    )
)
"""Nodes begin with a snapshot."""
SECURITY = (
    Mutant(
        "a denial counts only before what allows",
        "KIP-11",
        (Edit(AclIndex.allows, "return False", "return is_allowed"),),
        stories=_CALM,
    ),
    Mutant(
        "an ACL of a prefix concerns its own name alone",
        "KIP-290",
        (Edit(_Table.of, "if length <= len(name):", "if length == len(name):"),),
        stories=_CALM,
    ),
    Mutant(
        "an ACL counts from every host",
        "KIP-11",
        (Edit(AclIndex.allows, "if acl.host not in (WILDCARD, host):", "if False:"),),
        stories=_CALM,
    ),
    Mutant(
        "the right to write does not imply that to describe",
        "KIP-11",
        (Edit(AclIndex.allows, "elif is_same or acl.operation in implied_by:", "elif is_same:"),),
        stories=_CALM,
    ),
    Mutant(
        "an ACL that was removed stays in the index",
        "seam: authorizer",
        (Edit(Authorizer._take, "for acl_id in before.keys() - acls.keys():", "for acl_id in ():"),),
        stories=_CALM,
    ),
    Mutant(
        "rights are remembered beyond a change of ACLs",
        "seam: authorizer",
        (Edit(Authorizer._take, "self._forget()", "pass"),),
        stories=_CALM,
    ),
    Mutant(
        "a fetch stream keeps the rights with which it began",
        "seam: fetch sessions",
        (
            Edit(
                RequestAuthorizer.passes,
                "request.rights = _PartRights(self._authorizer, judge.rights, caller, request.api, self._refusals)",
                "request.rights = self.__dict__.setdefault('kept', {}).setdefault((caller.peer, request.api), "
                "_PartRights(self._authorizer, judge.rights, caller, request.api, self._refusals))",
            ),
            Edit(Authorizer.newest, "return rights if rights.version is self._acls() else", "return rights or"),
        ),
        stories=_CALM,
    ),
    Mutant(
        "the removal of an ACL is not replayed",
        "seam: metadata",
        (Edit(AclTable.drop, "self._editable().pop(acl_id)", "self.by_id[acl_id]"),),
        stories=_CALM,
    ),
    Mutant(
        "a snapshot of the metadata has no ACLs",
        "KIP-630",
        (Edit(image_records, "for acl_id in sorted(image.acls):", "for acl_id in ():"),),
        stories=_RESTARTED,
    ),
    Mutant(
        "a user that was removed can log in",
        "KIP-554",
        (Edit(ScramTable.drop, "del self._editable()[key]", "pass"),),
        stories=_CALM,
    ),
    Mutant(
        "a listener with SASL lets in who has not logged in",
        "KIP-43",
        (Edit(SessionCallers.caller, "if api.before_authentication:", "if True:"),),
        stories=_CALM,
    ),
    Mutant(
        "a session counts at every connection",
        "ADR 0025",
        (
            Edit(
                Sessions.principal_of,
                "self._of.get(at)",
                "next((one for one in self._of.values() if one.token == token), None)",
            ),
            Edit(Sessions.has_one, "return session is not None and", "return session is None or"),
        ),
        stories=_CALM,
    ),
    Mutant(
        "a node speaks in the name of every other one",
        "ADR 0026",
        (Edit(Senders.check, "sender is not None and sender != node_id", "False"),),
        stories=_FORGED,
    ),
)
