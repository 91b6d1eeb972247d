"""The one rule by which a caller is counted where several share something of a node.

A caller that has proved its identity is counted as its principal, from whatever address it comes: a tenant with many
machines has one share, and two tenants behind one address have one each. A caller that has not is counted as its
network: an address of IPv4, or 64 bits of IPv6, because one machine has as many addresses of those as it likes.

Not here: how much a share is (memory_budget.py, load/party_shares.py), and quotas, whose owners an
administrator names (quotas/client_quotas.py).
"""

from __future__ import annotations

from broker.network.request_channel import ANONYMOUS, Caller
from penstock.addresses import network_of


def party_of(caller: Caller) -> str:
    """The party that pays for what this caller uses: its principal, or the network of an anonymous caller."""
    return party(caller.principal, caller.peer.host)


def party(principal: str, host: str) -> str:
    """The party of a principal ("User:anna") at an address. Principals have a colon and a type before it, networks are
    addresses, so that no principal is taken for a network."""
    return network_of(host) if principal == ANONYMOUS else principal
