"""Templates from two folders: ours first, then Flower's; and our entries in its navigation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tornado.template import Loader, Template

OURS = Path(__file__).parent / "templates"
#: tab and label, in the order of the navigation; each tab is also the name of its handler
TABS = (("lanes", "Lanes"), ("jobs", "Jobs"), ("schedule", "Schedule"), ("failed", "Failed"))
_ITEM = """
        <li class="nav-item">
          <a class="nav-link{{% if active_tab == '{tab}' %}} active{{% end %}}" href="{{{{ reverse_url('{tab}') }}}}"
            {{% if active_tab == '{tab}' %}}aria-current="page"{{% end %}}>{label}</a>
        </li>"""
#: the first list of Flower's navigation bar ends here
_LIST_ENDS = "</ul>"


class TwoFolders(Loader):
    """Tornado's loader over `OURS` and, for what is not there, the folder `flowers`; nothing of Flower's is changed but
    the navigation bar, whose first list gains our tabs.
    """

    def __init__(self, flowers: str, **options: Any) -> None:
        super().__init__(flowers, **options)

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        """Return the name itself: both folders are flat, and a template may extend one of the other folder."""
        return name

    def _create_template(self, name: str) -> Template:
        own = OURS / name
        text = own.read_text(encoding="utf-8") if own.is_file() else (Path(self.root) / name).read_text(encoding="utf-8")
        return Template(with_tabs(text) if name == "navbar.html" else text, name=name, loader=self)


def with_tabs(navbar: str) -> str:
    """Return Flower's navigation bar with our tabs at the end of its first list."""
    before, ends, after = navbar.partition(_LIST_ENDS)
    items = "".join(_ITEM.format(tab=tab, label=label) for tab, label in TABS)
    return f"{before.rstrip()}{items}\n      {ends}{after}" if ends else navbar
