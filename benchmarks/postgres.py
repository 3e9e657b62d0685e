"""A PostgreSQL of its own, with default settings, and Procrastinate in a virtual environment.

Neither enters the project: the server is Debian's (`apt-get install postgresql`), Procrastinate
comes from the package registry into a folder that is thrown away, or into the one that `--peers`
names.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

PEER = ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9")
INSTALL = "not measured: no PostgreSQL here (`apt-get install postgresql`)"


def programs() -> Path | None:
    """The folder of the server's programs, the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(on_path).parent if on_path else None


@contextlib.contextmanager
def cluster(bin_: Path) -> Iterator[tuple[str, int]]:
    """A server as `initdb` sets it up, on a socket of its own: its address and its process id."""
    user = "nobody" if os.getuid() == 0 else None  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # a socket's path must be short
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data = folder / "data"
    try:
        subprocess.run(
            [bin_ / "initdb", "-D", data, "-U", "bench", "-A", "trust"],
            check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        server = subprocess.Popen(
            [bin_ / "postgres", "-D", data, "-k", folder, "-h", ""],
            user=user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            ready = [bin_ / "pg_isready", "-q", "-h", folder]
            while subprocess.run(ready, check=False).returncode:
                assert server.poll() is None, "postgres ended"
            yield f"host={folder} user=bench dbname=postgres", server.pid
        finally:
            server.terminate()
            server.wait(60)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def python(kept: Path | None) -> Iterator[str]:
    """The Python of a virtual environment with the peer, of `kept` or of one to throw away."""
    with tempfile.TemporaryDirectory() as folder:
        path = (kept or Path(folder)) / "bin" / "python"
        if not path.exists():
            venv.create(path.parents[1], with_pip=True)
        if subprocess.run([path, "-c", "import procrastinate, psycopg_pool"], check=False,
                          stderr=subprocess.DEVNULL).returncode:  # fmt: skip
            command = [path, "-m", "pip", "install", "--quiet", *PEER]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield str(path)
