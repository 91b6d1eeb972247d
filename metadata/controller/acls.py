"""Decides on CreateAcls and DeleteAcls: which ACLs are made, and which go."""

from __future__ import annotations

from typing import Final

from metadata.acls import record_of
from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.records import Record, RemoveAccessControlEntryRecord
from penstock.errors import ApiError, InvalidRequestError, PolicyViolationError
from penstock.messages.security.acl_rules import check_acl
from penstock.messages.security.acls import (
    AclBinding,
    AclCreation,
    AclDeletion,
    AclFilter,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_UNKNOWN: Final = (ResourceType.UNKNOWN, PatternType.UNKNOWN, Operation.UNKNOWN, Permission.UNKNOWN)


def create_acls(context: DecisionContext, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
    """Results stand in the order of the request; an ACL that there is already makes no record."""
    context.check_item_count(len(request.acls), "ACLs")
    state, made = context.state, dict[AclBinding, Record]()
    results = []
    for acl in request.acls:
        try:
            check_acl(acl)
            if acl not in state.acls.ids and acl not in made:
                _check_room(len(state.acls.by_id) + len(made), context.config.max_acls)
                made[acl] = record_of(context.new_acl_id(), acl)
            results.append(AclCreation())
        except ApiError as error:
            results.append(AclCreation(error))
    return ControllerResult(tuple(made.values()), CreateAclsResponse(tuple(results)))


def delete_acls(context: DecisionContext, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Deletes the ACLs that match; the results stand in the order of the request. A filter that finds more than one
    decision may remove is refused whole."""
    context.check_item_count(len(request.filters), "filters")
    left = dict(context.state.acls.by_id)
    records: list[Record] = []
    results, compared = [], 0
    for wanted in request.filters:
        try:
            _check_filter(wanted)
            exact = wanted.exact
            if exact is None:
                compared += len(left)
                _check_compared(compared, context.config.max_acls_compared)
                found = {acl_id: acl for acl_id, acl in left.items() if wanted.finds(acl)}
            else:
                acl_id = context.state.acls.ids.get(exact, "")
                found = {acl_id: exact} if acl_id in left else {}
            most = context.config.max_records_per_decision
            if len(records) + len(found) > most:
                raise PolicyViolationError(
                    f"the filter finds {len(found)} ACLs; at most {most} are removed at once: name a principal or a"
                    " resource"
                )
            for acl_id in sorted(found):
                del left[acl_id]
                records.append(RemoveAccessControlEntryRecord(acl_id))
            results.append(AclDeletion(tuple(found[acl_id] for acl_id in sorted(found))))
        except ApiError as error:
            results.append(AclDeletion(error=error))
    return ControllerResult(tuple(records), DeleteAclsResponse(tuple(results)))


def _check_compared(count: int, most: int) -> None:
    if count > most:
        raise InvalidRequestError(
            "the filters of this request would have to be compared with too many ACLs; give fewer at once, or every"
            " field of the ACLs that are to go"
        )


def _check_room(count: int, most: int) -> None:
    if count >= most:
        raise PolicyViolationError(
            f"the cluster has {count} ACLs, and at most {most} are kept; let prefixes stand for many names"
        )


def _check_filter(wanted: AclFilter) -> None:
    words = wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission
    if any(word is unknown for word, unknown in zip(words, _UNKNOWN, strict=True)):
        raise InvalidRequestError(
            "the filter has a word that this controller does not know: the client may be newer than the cluster"
        )
