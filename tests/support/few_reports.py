"""A worker (`pytest -n`) sends one report of a test that passed, in place of three and two notices of begin and end.

23,000 tests sent 137,000 messages, each made, packed, unpacked and counted. The controller counts a test by the report
of its call. Set-ups and tear-downs that fail, are skipped or record a property are still reported. `--durations` and
`--junit-xml` count every part: with them all is sent.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


class FewReports:
    """A plugin of a worker."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.passed:
                if report.when != "call" and not report.user_properties:
                    continue
                report.keywords = {}  # nobody asks which marks a passed test has
            item.ihook.pytest_runtest_logreport(report=report)
        return True


def register(config: pytest.Config) -> None:
    """Makes a worker's reports few, unless somebody counts all of them."""
    if hasattr(config, "workerinput") and not (config.option.durations or config.option.xmlpath):
        config.pluginmanager.register(FewReports(), "penstock-few-reports")
