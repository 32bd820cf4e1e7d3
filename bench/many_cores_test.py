import unittest

import many_cores

PROFILE = """thread          phase                     own s    share    all s     times     mean us  longest ms
tandem          update                    3.352    92.9%    3.352       123     27251.8      73.718
replica 0       loss and gradients        2.587    71.7%    2.587     15744       164.3      16.218
replica 0       sync                      0.010     0.0%    0.010      1968         0.1       0.002
replica 0       (none of these)           0.513    14.2%
replica 1       act                       9.000    71.7%    2.587     15744       164.3      16.218
"""


class ManyCoresTest(unittest.TestCase):
    def test_phases_are_those_of_the_first_replica(self):
        found = many_cores.phases(PROFILE)
        self.assertEqual(found["loss and gradients"], (2587.0, 15744))
        self.assertEqual(found["sync"][1], 1968)
        self.assertNotIn("update", found)
        self.assertNotIn("act", found)

    def test_the_replica_with_the_most_shards_counts(self):
        ms = {"shared": 64.0, "whole": 1.0}

        def shared(n):
            return many_cores.model(ms, 64, 16, 40_000, n, 100, 10)[0]

        self.assertEqual(shared(1), 64.0)
        self.assertEqual(shared(32), 2.0)
        self.assertEqual(shared(48), 2.0)
        self.assertEqual(shared(192), 1.0)

    def test_one_replica_waits_for_nobody(self):
        ms = {"shared": 64.0, "whole": 1.0}
        self.assertEqual(many_cores.model(ms, 64, 16, 40_000, 1, 100, 10)[2], 0.0)
        more = many_cores.model(ms, 64, 16, 40_000, 64, 100, 10)[2]
        self.assertGreater(more, many_cores.model(ms, 64, 16, 40_000, 2, 100, 10)[2])


if __name__ == "__main__":
    unittest.main()
