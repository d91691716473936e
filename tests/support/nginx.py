"""A real nginx of a test's own: its own configuration, folder, user and loopback ports, and its own word on every request.

One process serves a manual at several fronts, each on a port of its own with a limiter or a firewall of its own.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from config.devstack.processes import spawn, stop_process
from tests.support.servers import free_port, missing, wait_until

_BINARIES = (Path("/usr/sbin/nginx"), Path("/usr/local/sbin/nginx"), Path("/opt/homebrew/bin/nginx"))
_MODSECURITY = Path("/usr/lib/nginx/modules/ngx_http_modsecurity_module.so")
_MODSECURITY_CONF = Path("/etc/nginx/modsecurity.conf")
_CRS_SETUP = Path("/etc/modsecurity/crs/crs-setup.conf")
_CRS_RULES = Path("/usr/share/modsecurity-crs/rules")
_READY_WITHIN_SEC = 20.0
#: a request that a test makes itself, to look or to lift a block
OPERATOR = "the-operator"

_FORMAT = (
    '{"port":"$server_port","path":"$request_uri","status":$status,"ended":$msec,"took":$request_time,'
    '"sent":$body_bytes_sent,"limiter":"$limit_req_status","agent":"$http_user_agent"}')


@dataclass(frozen=True)
class Limit:
    """``limit_req``: so many requests a second (0.5 is written as 30 a minute), and what is done about more.

    `status` None is nginx's own choice, a 503. `retry_after` is a header of every answer, as ``add_header … always``
    makes it, refusals alone with `only_refusals`.
    """

    per_sec: float
    burst: str = ""
    status: int | None = None
    retry_after: str | None = None
    only_refusals: bool = False


@dataclass
class Front:
    """One site: `limit` for all that is asked of it, `rules` for ModSecurity (None: it is not asked)."""

    name: str
    limit: Limit | None = None
    rules: str | None = None
    port: int = field(default_factory=free_port)

    @property
    def host(self) -> str:
        """The host key of the site."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The site's base URL."""
        return f"http://{self.host}"


@dataclass(frozen=True)
class Answered:
    """A line of nginx's access log; moments are seconds of the wall clock, by the millisecond."""

    port: int
    path: str
    status: int
    started: float
    ended: float
    limiter: str
    agent: str

    @property
    def is_refused(self) -> bool:
        """Whether the limiter or the firewall said no."""
        return self.limiter == "REJECTED" or self.status in (403, 444)


def crs_rules(paranoia: int) -> str:
    """Return rules that load the OWASP Core Rule Set at a paranoia level, behind the packaged recommended settings."""
    for path in (_MODSECURITY_CONF, _CRS_SETUP, _CRS_RULES):
        if not path.exists():
            missing("modsecurity-crs", where_complete="CI_FULL")
    return (
        f"{_recommended()}\nInclude {_CRS_SETUP}\n"
        f'SecAction "id:900000,phase:1,nolog,pass,t:none,setvar:tx.paranoia_level={paranoia}"\n'
        f"Include {_CRS_RULES}/*.conf\n")


def counting_rules(allowed: int, status: int = 403) -> str:
    """Return rules that refuse once an address has asked more than `allowed` times, until `NginxServer.lift`.

    With the status 444 nginx hangs up instead of answering.
    """
    # the collection is in the process's memory: no clock of the firewall's decides when it forgets
    return (
        "SecRuleEngine On\n"
        'SecAction "id:1,phase:1,nolog,pass,initcol:ip=%{REMOTE_ADDR}_%{SERVER_PORT}"\n'
        'SecRule REQUEST_URI "@beginsWith /-/lift" "id:2,phase:1,nolog,allow,setvar:ip.asked=0"\n'
        'SecAction "id:3,phase:1,nolog,pass,setvar:ip.asked=+1"\n'
        f'SecRule IP:ASKED "@gt {allowed}" "id:4,phase:1,log,deny,status:{status}"\n')


def _recommended() -> str:
    """Return the packaged settings, switched on, without what needs folders of the system.

    Debian's file for Apache holds a line that libmodsecurity 3 refuses (SecRequestBodyInMemoryLimit).
    """
    dropped = ("SecRuleEngine", "SecRequestBodyInMemoryLimit", "SecAuditEngine", "SecAuditLog ", "SecUnicodeMapFile")
    kept = [line for line in _MODSECURITY_CONF.read_text().splitlines() if not line.startswith(dropped)]
    return "\n".join([*kept, "SecRuleEngine On", "SecAuditEngine Off", "SecUnicodeMapFile /etc/nginx/unicode.mapping 20127"])


class NginxServer:
    """nginx as a child process in the foreground that serves the files of `root` at each of `fronts`."""

    def __init__(self, root: Path, fronts: Sequence[Front]) -> None:
        self._binary = next((path for path in _BINARIES if path.exists()), None) or missing("nginx", where_complete="CI_FULL")
        if any(front.rules is not None for front in fronts) and not _MODSECURITY.exists():
            missing("libnginx-mod-http-modsecurity", where_complete="CI_FULL")
        self.fronts = {front.name: front for front in fronts}
        self.folder = Path(tempfile.mkdtemp(prefix="rl-nginx-", dir="/tmp"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._access, self._output = self.folder / "access.log", self.folder / "nginx.out"
        for front in fronts:
            if front.rules is not None:
                (self.folder / f"{front.name}.rules").write_text(front.rules)
        (self.folder / "nginx.conf").write_text(self._configuration(root))
        for path in self.folder.iterdir():
            path.chmod(0o644)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> NginxServer:
        """Start it and return once every front answers."""
        argv = [str(self._binary), "-p", str(self.folder), "-e", "error.log", "-c", "nginx.conf"]
        self._process = process = spawn(argv, None, self._output, cwd="/", user=self._user)
        wait_until(lambda: process.poll() is not None or self._listens(), "the start of nginx", _READY_WITHIN_SEC)
        if process.poll() is not None:
            raise RuntimeError(f"nginx did not start:\n{self._output.read_text()[-1000:]}\n{self.errors[-1000:]}")
        return self

    def remove(self) -> None:
        """End it and delete its folder."""
        if self._process is not None:
            stop_process(self._process, 5)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, front: str | None = None) -> list[Answered]:
        """Return what nginx says it was asked, by anybody but the operator, in the order of arrival; of one front or all."""
        found = [one for one in self._lines() if one.agent != OPERATOR]
        return [one for one in found if front is None or one.port == self.fronts[front].port]

    @property
    def errors(self) -> str:
        """What it wrote into its error log: each refusal, by the limiter or the firewall, has a line."""
        path = self.folder / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def lift(self, front: str) -> None:
        """Have the counting rules of a front forget who has asked."""
        self.ask(front, "/-/lift")

    def ask(self, front: str, path: str, agent: str = OPERATOR) -> int:
        """Ask for a path as somebody else would; return the status."""
        request = urllib.request.Request(self.fronts[front].url + path, headers={"user-agent": agent, "accept": "*/*"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _AnyStatus())
        with opener.open(request, timeout=5) as answer:
            return int(answer.status)

    def _listens(self) -> bool:
        try:
            return all(self.ask(name, "/-/lift") for name in self.fronts)
        except OSError:
            return False

    def _lines(self) -> list[Answered]:
        text = self._access.read_text(encoding="utf-8") if self._access.exists() else ""
        rows = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        found = [Answered(int(row["port"]), row["path"], row["status"], row["ended"] - row["took"], row["ended"],
                          row["limiter"], row["agent"]) for row in rows]
        return sorted(found, key=lambda one: one.started)

    def _configuration(self, root: Path) -> str:
        module = f"load_module {_MODSECURITY};\n" if any(f.rules is not None for f in self.fronts.values()) else ""
        paths = "".join(f"    {name}_temp_path {self.folder}/{name};\n"
                        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        zones = "".join(_zone(front) for front in self.fronts.values())
        servers = "".join(self._server(front, root) for front in self.fronts.values())
        # one process: there is no second one that could outlive it
        return (
            f"{module}daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log error.log warn;\n"
            "events { worker_connections 256; }\nhttp {\n"
            f"    log_format line escape=json '{_FORMAT}';\n    access_log access.log line;\n{paths}"
            f"    gzip on;\n    types {{ text/html html; text/css css; image/png png; }}\n{zones}{servers}}}\n")

    def _server(self, front: Front, root: Path) -> str:
        rules = "" if front.rules is None else (
            f"        modsecurity on;\n        modsecurity_rules_file {self.folder}/{front.name}.rules;\n")
        # the operator's own door has no limiter
        return (
            f"    server {{\n        listen 127.0.0.1:{front.port};\n        root {root};\n{rules}"
            f"        location = /-/lift {{ return 204; }}\n"
            f"        location / {{\n{_limiter(front)}        }}\n    }}\n")


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Takes every answer as one."""

    def http_response(self, request: object, response: object) -> object:
        return response


def _zone(front: Front) -> str:
    if front.limit is None:
        return ""
    # nginx knows whole numbers alone
    rate = f"{front.limit.per_sec:.0f}r/s" if front.limit.per_sec >= 1 else f"{front.limit.per_sec * 60:.0f}r/m"
    zone = f"    limit_req_zone $binary_remote_addr zone={front.name}:1m rate={rate};\n"
    if front.limit.only_refusals and front.limit.retry_after is not None:
        zone += f'    map $status $wait_{front.name} {{ default ""; {front.limit.status} "{front.limit.retry_after}"; }}\n'
    return zone


def _limiter(front: Front) -> str:
    limit = front.limit
    if limit is None:
        return ""
    lines = [f"limit_req zone={front.name} {limit.burst}".rstrip()]
    if limit.status is not None:
        lines.append(f"limit_req_status {limit.status}")
    if limit.retry_after is not None:
        value = f"$wait_{front.name}" if limit.only_refusals else f'"{limit.retry_after}"'
        lines.append(f"add_header Retry-After {value} always")
    return "".join(f"            {line};\n" for line in lines)


def gaps(log: Sequence[Answered]) -> list[float]:
    """Return the seconds between the end of each answer and the next request."""
    return [after.started - before.ended for before, after in pairwise(log)]


@contextmanager
def nginx(root: Path, *fronts: Front) -> Iterator[NginxServer]:
    """Serve `root` for the length of the block."""
    server = NginxServer(root, fronts)
    try:
        yield server.start()
    finally:
        server.remove()
