"""The report on a group's politeness in words, for whoever runs its site."""

from __future__ import annotations

from typing import Any

from console.cli.show import brief, cell, print_table, span


def print_politeness(group: str, found: dict[str, Any]) -> None:
    """Print the report of `models.politeness` on one group."""
    gaps = found["gaps"]
    if not found["requests"]:
        print(f"\n{group}: no requests")
        return
    if gaps["smallest_sec"] is None:
        print(f"\n{group}: {found['requests']} request")
    else:
        print(f"\n{group}: {found['requests']} requests; between them at least {cell(gaps['smallest_sec'])} s, "
              f"usually {cell(gaps['median_sec'])} s (required: {cell(gaps['required_sec'])} s)")
    print_table(("hour", "requests", "errors"),
                [[one["hour"], one["requests"], one["errors"]] for one in found["hours"]], empty="no requests")
    print_table(("answer", "requests"), list(found["statuses"].items()), empty="")
    if found["failures"]:
        print_table(("no answer because", "requests"), list(found["failures"].items()), empty="")
    for one in found["robots"]:
        print(f"robots.txt of {one['host']}: {cell(one['status'])} {one['decision']}, read {one['fetched_at']}")
    print(f"articles left alone because robots.txt disallows them: {found['disallowed']}")
    for one in found["refusals"]:
        asked = f", asked to wait {one['retry_after']}" if one["retry_after"] else ""
        waited = "nothing was asked since" if one["waited_sec"] is None else f"waited {span(one['waited_sec'])}"
        print(f"{one['at']} {one['kind']}{asked}: {waited}{'' if one['obeyed'] else ', too short'} ({brief(one['reason'])})")
