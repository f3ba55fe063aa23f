"""Plan a repository of Icechunk and print the peak memory of this process in MB, and the entries.

Executors run in processes of their own, as they do for ``reclaim plan``.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from bench.peak import peak_megabytes
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.session import build_session
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins

if __name__ == "__main__":
    engine = SparkEngine(build_session())
    options = PlanOptions(margins=Margins(objects=timedelta(0)))
    plan = make_plan(IcechunkStore(sys.argv[1]), engine, options)
    print(peak_megabytes(), plan.document.read.entries)
