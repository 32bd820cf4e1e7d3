#!/usr/bin/env python3
"""classifies.py FASHION_MNIST ACCURACY STRATEGY: fails unless two epochs on two replicas reach the accuracy on the test
images, and each of them trained."""

import json
import subprocess
import sys


def main() -> int:
    program, wanted, strategy = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    command = [program, "--devices", "cpu:2", "--shards", "2", "--epochs", "2", "--seed", "1", "--strategy", strategy]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(f"{strategy}: test accuracy {result['test_accuracy']} after {result['epochs']} epochs, {wanted} wanted")
    rows = [replica["rows"] for replica in result["replicas"]]
    print(f"rows of each replica: {rows}")
    return 0 if result["test_accuracy"] >= wanted and len(rows) == 2 and min(rows) > 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
