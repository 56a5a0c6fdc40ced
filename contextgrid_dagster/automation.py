"""When Dagster's own automation should rebuild an asset, for those who switch its sensor on."""

from __future__ import annotations

from dagster import AutomationCondition

# An upstream rebuilt with the same content does not count: plain eager() would pay for every answer again.
on_changed_content = AutomationCondition.eager().replace("newly_updated", AutomationCondition.data_version_changed())
