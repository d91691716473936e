"""sites.yaml: read it, refuse what is wrong with file, line and key, all at once; nothing is half accepted."""

from console.sites_file.reader import read_sites_file
from console.sites_file.shape import ScheduleOverrides, SitesFile

__all__ = ["ScheduleOverrides", "SitesFile", "read_sites_file"]
