#!/usr/bin/env python3
"""classifies.py FASHION_MNIST ACCURACY: fails unless two epochs on two replicas reach the accuracy on the test images."""

import json
import subprocess
import sys


def main() -> int:
    program, wanted = sys.argv[1], float(sys.argv[2])
    command = [program, "--devices", "cpu:2", "--shards", "2", "--epochs", "2", "--seed", "1"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(f"test accuracy {result['test_accuracy']} after {result['epochs']} epochs, {wanted} wanted")
    return 0 if result["test_accuracy"] >= wanted else 1


if __name__ == "__main__":
    raise SystemExit(main())
