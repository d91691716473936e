"""The command `ratelane`: looks at the import path before anything of ours is imported, then runs the command line."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_ROOMS = ("config", "models", "routing", "tasks")


def main() -> None:
    """Run the command line and leave with its exit code."""
    problem = foreign_package()
    if problem is not None:
        print(f"ratelane: {problem}", file=sys.stderr)
        sys.exit(2)
    from console.cli.app import run

    sys.exit(run(sys.argv[1:]))


def foreign_package() -> str | None:
    """Return a sentence about a package on the path that hides one of ours, or None if all of them are ours.

    Our packages have plain names; somebody's own ``config`` that comes first would otherwise fail in strange ways.
    """
    ours = Path(__file__).resolve().parent.parent
    for name in _ROOMS:
        found = _folder_of(name)
        if found is None:
            return f"the package '{name}' is missing beside {ours / 'console'}; the installation is incomplete"
        if found.resolve() != ours / name:
            return (
                f"the package '{name}' in {found.parent} is not Ratelane's and hides the one in {ours}; "
                f"start in another folder, or take {found.parent} off PYTHONPATH"
            )
    return None


def _folder_of(name: str) -> Path | None:
    spec = find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    # a module config.py instead of a package
    return Path(spec.origin).with_suffix("") if spec.origin else None


if __name__ == "__main__":
    main()
