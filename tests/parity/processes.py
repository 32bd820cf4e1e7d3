"""Ends of what scripts start."""

import subprocess


def end(process):
    """Of one that may be running still: a launcher that is asked to ends its ranks, too."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
