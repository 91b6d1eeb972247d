"""The APIs that change the quorum's voters, or forget a controller that is none, at a broker's listeners and, for a
voter's own address, between nodes.

Not here: what a row has (api.py), and the quorum's description (admin_apis.py).
"""

from __future__ import annotations

from typing import Any, Final

from penstock.messages import repetitions
from penstock.messages import voters as messages
from penstock.messages.api import KIB, SMALL, Api, ApiKind, ApiLimits, Operation

ENDPOINTS_MAX: Final = 10
"""Listeners of one voter; other nodes use one of them."""
_WITH_ENDPOINTS: Final = ApiLimits(8 * KIB, {"endpoints": ENDPOINTS_MAX}, "other nodes use one listener of a voter")


def _changes_voters(name: str, request: type[Any], limits: ApiLimits = SMALL) -> Api[Any, messages.VoterChangeResponse]:
    return Api(
        name,
        request,
        messages.VoterChangeResponse,
        ApiKind.FORWARDED,
        limits,
        Operation.ALTER,
        lambda answer: (answer,),
        repetitions.changed_voters_before,
    )


ADD_VOTER: Final = _changes_voters("AddVoter", messages.AddVoterRequest, _WITH_ENDPOINTS)
REMOVE_VOTER: Final = _changes_voters("RemoveVoter", messages.RemoveVoterRequest)
MAKE_QUORUM_DYNAMIC: Final = _changes_voters("MakeQuorumDynamic", messages.MakeQuorumDynamicRequest)
UNREGISTER_CONTROLLER: Final = _changes_voters("UnregisterController", messages.UnregisterControllerRequest)
UPDATE_VOTER: Final = Api(
    "UpdateVoter",
    messages.UpdateVoterRequest,
    messages.VoterChangeResponse,
    ApiKind.CONTROLLER,
    _WITH_ENDPOINTS,
    Operation.CLUSTER_ACTION,
    lambda answer: (answer,),
    sender=lambda request: request.voter_id,
)
