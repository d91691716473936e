"""A demo site with a firewall, served from this machine: `ratelane demo` shows on it what tests prove on it."""

from console.demo.politeness import Politeness, judge
from console.demo.requestlog import Entry, RequestLog, read_log
from console.demo.server import DemoServer
from console.demo.site import Hold, Site
from console.demo.waf import Behaviour, Waf

__all__ = ["Behaviour", "DemoServer", "Entry", "Hold", "Politeness", "RequestLog", "Site", "Waf", "judge", "read_log"]
