"""The export of stored articles to whoever reads them (rule P6): documents (pure), sinks, the run, and its task."""
