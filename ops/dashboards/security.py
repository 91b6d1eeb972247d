"""Callers, and what they may do and have: certificates, log-ins, rights, quotas, and the audit log."""

from __future__ import annotations

from ops.dashboards.panels import Dashboard, Query, Row, Unit, gauge, graph, rise, selected

CERTIFICATES = Row(
    "Certificates",
    (
        graph(
            "Certificates end in",
            "The first of a keystore, the last CA of a truststore. Renewed files are taken while the node runs.",
            Unit.SECONDS,
            Query(
                f"{selected('penstock_certificate_not_after_seconds')} - time()", "{{file}} {{listener}} {{instance}}"
            ),
        ),
        graph(
            "Changed certificates",
            "Taken, and listeners that still have the old ones because what is in the file does not work.",
            Unit.COUNT,
            rise("penstock_certificate_reloads_total", "taken {{instance}}"),
            gauge("penstock_certificates_refused", "refused {{listener}} {{instance}}"),
        ),
        graph(
            "Public keys of tokens",
            "Those in force, and listeners that still have the old ones because new ones do not come, or do not work.",
            Unit.COUNT,
            gauge("penstock_token_keys", "{{listener}} {{instance}}"),
            gauge("penstock_token_keys_refused", "refused {{listener}} {{instance}}"),
        ),
    ),
)
LOG_INS = Row(
    "Log-ins",
    (
        graph(
            "Log-ins",
            "At listeners with SASL, by their outcome. Throttled: too many attempts were under way.",
            Unit.COUNT,
            rise("penstock_authentications_total", "{{listener}}: {{outcome}}", "listener, outcome"),
            rise("penstock_reauthentications_total", "{{listener}}: renewed", "listener"),
        ),
        graph(
            "Logged in",
            "Connections of gRPC's listeners by which somebody is logged in.",
            Unit.COUNT,
            Query(f"sum by (instance) ({selected('penstock_authenticated_connections')})", "{{instance}}"),
        ),
    ),
)
RIGHTS = Row(
    "Rights",
    (
        graph(
            "Rights that requests lacked",
            "Who asked for what is in the audit log. A principal whose ACLs went asks again and again.",
            Unit.COUNT,
            rise("penstock_authorization_refusals_total", "{{resource}}", "resource"),
        ),
        graph(
            "ACLs",
            "In the metadata of each node: equal on all of them.",
            Unit.COUNT,
            gauge("penstock_acls", "{{instance}}"),
        ),
    ),
)
QUOTAS = Row(
    "Quotas",
    (
        graph(
            "Clients that wait for their quotas",
            "How long they were made to wait, by quota: all of them together, in the interval of a point. `penstock "
            "quotas list` shows what each may have.",
            Unit.SECONDS,
            rise("penstock_quota_throttle_seconds_total", "{{quota}}", "quota"),
        ),
        graph(
            "Requests over a quota",
            "Requests after which a client had to wait, by quota.",
            Unit.COUNT,
            rise("penstock_quota_throttled_requests_total", "{{quota}}", "quota"),
        ),
    ),
)
AUDIT = Row(
    "Audit log",
    (
        graph(
            "Audit lines",
            "Lines of the log penstock.audit: administrative requests, log-ins and refusals.",
            Unit.COUNT,
            rise("penstock_audit_lines_total", "{{instance}}"),
        ),
        graph(
            "Audit lines left out",
            "Events that were too many for a line each; a later line of their kind tells their number. Lines about "
            "what was done are never left out.",
            Unit.COUNT,
            rise("penstock_audit_lines_left_out_total", "{{kind}}", "kind"),
        ),
    ),
)

DASHBOARD = Dashboard("security", "security", __doc__.strip(), (CERTIFICATES, LOG_INS, RIGHTS, QUOTAS, AUDIT))
