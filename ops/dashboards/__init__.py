"""The Grafana dashboards, as data: `python -m ops.dashboards` writes ops/grafana/dashboards/ from it.

One module for each dashboard, and node_machine.py. panels.py says what a dashboard is, grafana.py makes JSON of it.
"""

from __future__ import annotations

from ops.dashboards import clients, cluster, groups, node, quorum, security, spark, topics, transactions

DASHBOARDS = (
    cluster.DASHBOARD,
    node.DASHBOARD,
    topics.DASHBOARD,
    quorum.DASHBOARD,
    clients.DASHBOARD,
    security.DASHBOARD,
    groups.DASHBOARD,
    transactions.DASHBOARD,
    spark.DASHBOARD,
)
