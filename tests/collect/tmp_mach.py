from hypothesis import Phase, settings

import tests.collect.test_machine as m


class TestIt(m.CollectMachine.TestCase):
    settings = settings(
        m.TestCollectMachine.settings,
        phases=[Phase.generate],
        max_examples=int(__import__("os").environ.get("N", "100")),
        database=None,
    )
