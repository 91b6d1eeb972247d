"""ACLs, users and quotas, as `penstock acls list`, `users list` and `quotas list` have them."""

from __future__ import annotations

from penstock.console.page import PageAsked, Slice
from penstock.errors import SecurityDisabledError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import AclBinding


@dataclass(frozen=True, slots=True)
class AclsView:
    """One page of ACLs."""

    acls: tuple[AclBinding, ...]
    slice: Slice
    principal: str
    resource: str
    disabled: str
    """Why the cluster has none."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """One user, and how it may log in."""

    user: str
    mechanisms: dict[str, int]
    """The iterations by the name of the mechanism."""


@dataclass(frozen=True, slots=True)
class UsersView:
    """One page of users."""

    users: tuple[UserRow, ...]
    slice: Slice
    filter: str


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The quotas of one entity."""

    user: str | None
    client_id: str | None
    ip: str | None
    limits: dict[str, float]


@dataclass(frozen=True, slots=True)
class QuotasView:
    """One page of quotas."""

    quotas: tuple[QuotaRow, ...]
    slice: Slice


async def show_acls(asked: PageAsked) -> AclsView:
    """Asks a broker, and filters here: by parts of the principal and of the resource's name."""
    principal, resource = asked.fields.text("principal", ""), asked.fields.text("resource", "")
    try:
        every = await asked.admin.describe_acls()
    except SecurityDisabledError as error:
        return AclsView((), Slice(1, 1, 0), principal, resource, str(error))
    found = sorted(
        (one for one in every if principal in one.principal and resource in one.resource_name),
        key=lambda one: (one.principal, one.resource_type, one.resource_name, one.operation),
    )
    part = Slice.of(len(found), asked.fields)
    return AclsView(tuple(found[part.rows]), part, principal, resource, "")


async def show_users(asked: PageAsked) -> UsersView:
    """Asks a broker for every user."""
    wanted = asked.fields.text("filter", "")
    found = await asked.admin.describe_user_scram_credentials()
    names = sorted(name for name in found if wanted in name)
    part = Slice.of(len(names), asked.fields)
    return UsersView(tuple(UserRow(name, dict(found[name].mechanisms)) for name in names[part.rows]), part, wanted)


async def show_quotas(asked: PageAsked) -> QuotasView:
    """Asks a broker for every quota."""
    found = await asked.admin.describe_client_quotas()
    rows = [QuotaRow(entity.user, entity.client_id, entity.ip, dict(limits)) for entity, limits in found.items()]
    rows.sort(key=lambda row: (row.user or "", row.client_id or "", row.ip or ""))
    part = Slice.of(len(rows), asked.fields)
    return QuotasView(tuple(rows[part.rows]), part)
