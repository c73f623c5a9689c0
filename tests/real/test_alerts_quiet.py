"""A week of a simulated fleet in which nothing goes wrong makes no alert; what goes wrong in one makes some."""

import time
from dataclasses import replace

import pytest

from tests.alerted import lived, on_store
from warpmeter.alerts.configured import rules
from warpmeter.settings import AlertRule, Alerts, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.store import Client

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
CHOSEN = Alerts(rules=(AlertRule("store-disk", enabled=False),))
"""How full the disk of this machine is nobody knows."""


def test_a_week_in_which_nothing_goes_wrong_makes_no_alert_not_even_a_pending_one(
    tables: Client, embedded: Store
) -> None:
    start = float(int(time.time()) // 3600 * 3600 - 7 * 86_400)
    watched = on_store(replace(embedded, database="shared"), rules(CHOSEN), CHOSEN)
    fleet = Fleet(hosts=4, gpus=2, interval_s=300.0, healthy=True)
    looks = 0
    for now in lived(tables, fleet, start, 7.0, 24 * 3600.0):
        watched.at(now)
        looks += 1
    assert looks == 7
    assert [alert.summary for alert in watched.memory.rows] == []
    assert watched.states() == {}


def test_what_goes_wrong_in_a_fleet_makes_alerts_of_it(tables: Client, embedded: Store) -> None:
    start = float(int(time.time()) // 3600 * 3600 - 7200)
    watched = on_store(replace(embedded, database="shared"), rules(CHOSEN), CHOSEN)
    fleet = Fleet(hosts=6, gpus=4, interval_s=20.0, faults_per_hour=40.0)
    for now in lived(tables, fleet, start, 0.7 / 24, 120.0):
        watched.at(now)
    fired = {alert.rule for alert in watched.memory.rows if alert.fired_at is not None}
    wrong = {"ecc-uncorrected", "ecc-growth", "gpu-lost", "host-silent", "job-idle", "source-failing"}
    assert wrong <= fired, fired
    assert fired & {"thermal-throttling", "gpu-hot"}, "one was hot"
