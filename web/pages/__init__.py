"""The pages: Python lays them out; panels fetch from the API in the browser, and the address holds what is chosen."""

from nicegui import ui

from warpmeter.web.pages import (
    alerts,
    analyze,
    api,
    console,
    host,
    job,
    missing,
    overview,
    profiling,
    reports,
    timeline,
)


def register() -> None:
    """Tell NiceGUI which address shows what."""
    ui.page("/", title="Overview · warpmeter")(overview.show)
    ui.page("/hosts", title="Hosts · warpmeter")(host.listing)
    ui.page("/host/{host:named}")(host.show)
    ui.page("/jobs", title="Jobs · warpmeter")(job.listing)
    ui.page("/job")(job.show)
    ui.page("/alerts", title="Alerts · warpmeter")(alerts.show)
    ui.page("/reports", title="Reports · warpmeter")(reports.show)
    ui.page("/profiling", title="Profiling · warpmeter")(profiling.show)
    ui.page("/analyze", title="Analyze · warpmeter")(analyze.show)
    ui.page("/timeline", title="Timeline · warpmeter")(timeline.show)
    ui.page("/sql", title="SQL · warpmeter")(console.show)
    ui.page("/api", title="API · warpmeter")(api.show)
    missing.register()
