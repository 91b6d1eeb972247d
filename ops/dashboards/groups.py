"""Consumer groups: what lags, who stands still, and the coordinators."""

from __future__ import annotations

from ops.dashboards.panels import INSTANCE, Dashboard, Query, Row, Unit, Variable, gauge, graph, rate, rise, selected

GROUP = 'group=~"$group"'
GROUP_APIS = (
    'api=~"FindCoordinator|ConsumerGroupHeartbeat|JoinGroup|SyncGroup|Heartbeat|LeaveGroup|OffsetCommit|TxnOffsetCommit|OffsetFetch'
    '|OffsetDelete|ListGroups|DescribeGroups|DeleteGroups"'
)


def of_groups(metric: str) -> Query:
    """The number of each group: its coordinator, which may have changed, shows it."""
    return Query(f"max by (group) ({selected(metric, GROUP)})", "{{group}}")


LAG = Row(
    "Lag",
    (
        graph(
            "Lag by group",
            "Records that a group has not committed, in all of its partitions; of the groups that lag most.",
            Unit.COUNT,
            of_groups("penstock_group_lag"),
        ),
        graph(
            "Age of the oldest uncommitted record",
            "At the least: a coordinator that is new remembers no past.",
            Unit.SECONDS,
            of_groups("penstock_group_lag_seconds"),
        ),
        graph(
            "Lag by partition",
            "Of the partitions that lag most. One alone: a slow record, a hot key, a member that hangs.",
            Unit.COUNT,
            Query(
                f"topk(20, max by (group, topic, partition) ({selected('penstock_group_partition_lag', GROUP)}))",
                "{{group}} {{topic}}-{{partition}}",
            ),
        ),
        graph(
            "Since the last progress",
            "Time since what a group has committed last changed. With lag and members: it is stuck.",
            Unit.SECONDS,
            of_groups("penstock_group_stalled_seconds"),
        ),
        graph(
            "Records of groups that never committed",
            "Such a group has no lag. What its members' partitions got since then, at the least.",
            Unit.COUNT,
            of_groups("penstock_group_never_committed_records"),
        ),
    ),
)
MEMBERS = Row(
    "Members and rebalances",
    (
        graph("Members by group", "Of the groups that lag most.", Unit.COUNT, of_groups("penstock_group_members")),
        graph(
            "Rebalances by group",
            "New epochs, or generations. Each member that comes or goes makes one; without end: members that are too"
            " slow for max.poll.interval.ms, or that crash.",
            Unit.COUNT,
            Query(
                f"max by (group) (increase({selected('penstock_group_epoch', GROUP)}[$__rate_interval]))", "{{group}}"
            ),
        ),
        graph(
            "Groups by state",
            "Of all coordinators.",
            Unit.COUNT,
            Query(f"sum by (type, state) ({selected('penstock_groups')}) > 0", "{{type}} {{state}}"),
        ),
        graph(
            "Members and rebalances by coordinator",
            "Of all groups that a node coordinates.",
            Unit.COUNT,
            gauge("penstock_group_coordinator_members", "members {{instance}}"),
            rise("penstock_group_rebalances_total", "rebalances {{instance}}"),
        ),
    ),
)
COORDINATORS = Row(
    "Coordinators",
    (
        graph(
            "Commits",
            "Offsets that groups have committed.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_group_commits_total"),
        ),
        graph(
            "Committed offsets",
            "Those that are kept, those that wait for the ends of their transactions, and those that were removed"
            " because they expired or their topics are gone.",
            Unit.COUNT,
            gauge("penstock_group_coordinator_offsets"),
            gauge("penstock_group_coordinator_pending_offsets", "pending {{instance}}"),
            rise("penstock_group_offsets_removed_total", "removed {{instance}}"),
        ),
        graph(
            "Time of requests about groups",
            "From arrival until the answer was sent, 95 of 100. JoinGroup and SyncGroup wait for the other members.",
            Unit.SECONDS,
            Query(
                "histogram_quantile(0.95, sum by (api, le) (rate("
                + selected("penstock_request_seconds_bucket", f'{GROUP_APIS},phase="total"')
                + "[$__rate_interval])))",
                "{{api}}",
            ),
        ),
        graph(
            "Requests that wait",
            "For other members, or for the commit of the coordinator's log.",
            Unit.COUNT,
            Query(f"sum by (api) ({selected('penstock_purgatory_size', GROUP_APIS)})", "{{api}}"),
        ),
        graph(
            "Partitions of __consumer_offsets",
            "Those that serve are not shown. Loading: its groups wait. Failed: they have no coordinator; the node's log"
            " says why.",
            Unit.COUNT,
            Query(selected("penstock_group_coordinator_partitions", 'state="loading"'), "loading {{instance}}"),
            Query(selected("penstock_group_coordinator_partitions", 'state="failed"'), "failed {{instance}}"),
        ),
        graph(
            "Load time",
            "From the begin of a lead until the groups of the partition have a coordinator: the last load, and the"
            " longest since the node started.",
            Unit.SECONDS,
            gauge("penstock_group_load_seconds", "last {{instance}}"),
            gauge("penstock_group_load_max_seconds", "longest {{instance}}"),
        ),
        graph(
            "Loads",
            "Partitions that were loaded, and the records that this took. Many records in few offsets: the cleaner is"
            " behind.",
            Unit.COUNT,
            rise("penstock_group_loads_total", "partitions {{instance}}"),
            rise("penstock_group_loaded_records_total", "records {{instance}}"),
        ),
        graph(
            "Memory of groups",
            "Of the limit, group.coordinator.memory.max.bytes: what lasts, and offsets of open transactions,"
            " which have a limit of their own, as large. A principal may hold as much as stays free for others.",
            Unit.SHARE,
            Query(
                selected("penstock_group_coordinator_memory_bytes")
                + " / "
                + selected("penstock_group_coordinator_memory_max_bytes"),
                "{{instance}}",
            ),
            Query(
                selected("penstock_group_coordinator_memory_open_bytes")
                + " / "
                + selected("penstock_group_coordinator_memory_max_bytes"),
                "open {{instance}}",
            ),
        ),
        graph(
            "Who holds the memory of groups",
            "The principals, or networks of anonymous clients, that hold most of it on a node.",
            Unit.BYTES,
            gauge("penstock_group_coordinator_party_memory_bytes", "{{party}} {{instance}}"),
        ),
        graph(
            "Refused for want of memory of groups",
            "By a coordinator, because the principal holds its share already. The error says what to do.",
            Unit.COUNT,
            rise("penstock_group_coordinator_memory_refusals_total", "{{instance}}"),
        ),
    ),
)
WATCH = Row(
    "How lag is measured",
    (
        graph(
            "Looks at all groups",
            "Each takes about a hundredth of the event loop; with very many offsets it takes longer.",
            Unit.COUNT,
            rise("penstock_group_lag_passes_total"),
        ),
        graph("Time of a look", "Of the last one.", Unit.SECONDS, gauge("penstock_group_lag_pass_seconds")),
        graph(
            "Not shown by itself",
            "Groups and partitions that lag less than those that have series of their own, and groups that have.",
            Unit.COUNT,
            gauge("penstock_group_lag_groups", "shown groups {{instance}}"),
            gauge("penstock_group_lag_hidden_groups", "other groups {{instance}}"),
            gauge("penstock_group_lag_hidden_partitions", "other partitions {{instance}}"),
        ),
        graph(
            "Ends of logs elsewhere",
            "Partitions without a replica on the coordinator: how many leaders were asked for, and how many are not"
            " known.",
            Unit.COUNT,
            rise("penstock_group_lag_partitions_asked_total", "asked {{instance}}"),
            gauge("penstock_group_lag_unknown_partitions", "unknown {{instance}}"),
        ),
    ),
)

DASHBOARD = Dashboard(
    "groups",
    "groups",
    __doc__.strip(),
    (LAG, MEMBERS, COORDINATORS, WATCH),
    (INSTANCE, Variable("group", "Group", "label_values(penstock_group_lag, group)")),
)
