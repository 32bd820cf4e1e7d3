"""What pip asks the build backend for before it builds."""

import subprocess
import sys
from pathlib import Path

import tandem

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """import sys
sys.path.insert(0, "python/backend")
import tandem_backend
tandem_backend.prepare_metadata_for_build_wheel(sys.argv[1])
"""


def test_the_version_is_that_of_the_sources_and_no_key_is_deprecated(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "deprecated" not in done.stdout + done.stderr, done.stdout + done.stderr
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    assert f"\nVersion: {tandem.__version__}\n" in metadata.read_text()
