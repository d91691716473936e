"""Taking secrets out of text that people see. Pure."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?<=://)([^\s:/?#@]*):[^\s/?#]*@")
_SECRET_PARAMETER = re.compile(r"(?i)\b((?:ssl)?password|passwd|secret|token|api[_-]?key)=[^&\s\"']+")


def redact_url(text: str) -> str:
    """Return `text`, a URL or a longer text with URLs in it, with every password replaced by ``***`` (rule U6)."""
    return _SECRET_PARAMETER.sub(r"\1=***", _CREDENTIALS.sub(r"\1:***@", text))
