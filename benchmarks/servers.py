"""Any transcription server that runs already, by its address.

    --server NAME=http://127.0.0.1:8000/v1#MODEL     POST /v1/audio/transcriptions (OpenAI's form)
    --server NAME=http://127.0.0.1:9000/asr?vad_filter=true     POST /asr (whisper-asr-webservice)

What follows `#` is sent as the model's name. For a fair comparison give the server the weights
that are measured here (a folder with a CTranslate2 model, int8) and as many threads: speaches by
`WHISPER__COMPUTE_TYPE`, `WHISPER__CPU_THREADS` and `STT_MODEL_TTL=-1`, whisper-asr-webservice by
`ASR_ENGINE=faster_whisper`, `ASR_MODEL`, `ASR_QUANTIZATION` and `OMP_NUM_THREADS`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.spoken import Spoken

HOUR = 3600.0


class Server:
    """One running server."""

    def __init__(self, url: str) -> None:
        address, _, self._model = url.partition("#")
        self._asr = urlsplit(address).path.endswith("/asr")
        self._url = address if self._asr else f"{address.rstrip('/')}/audio/transcriptions"
        parts = urlsplit(address)
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._local = parts.hostname in {"127.0.0.1", "localhost", "::1"}

    def text(self, spoken: Spoken) -> str:
        """The server's answer."""
        with httpx.Client(timeout=httpx.Timeout(HOUR, connect=10), trust_env=False) as client:
            with spoken.path.open("rb") as body:
                file = {"audio_file" if self._asr else "file": (spoken.path.name, body)}
                if self._asr:
                    url = httpx.URL(self._url).copy_merge_params(
                        {"language": spoken.language, "output": "txt"}
                    )
                    answer = client.post(url, files=file)
                else:
                    fields = {
                        "model": self._model or "whisper-1",
                        "language": spoken.language,
                        "response_format": "json",
                    }
                    answer = client.post(self._url, files=file, data=fields)
            answer.raise_for_status()
            return answer.text if self._asr else str(answer.json()["text"])

    def pids(self) -> set[int]:
        """The process that listens at the port, where it is this machine's and may be seen."""
        return listeners(self._port) if self._local else set()


def listeners(port: int) -> set[int]:
    """Processes with a socket that listens at this port."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(str(each.readlink()) in sockets for each in (entry / "fd").iterdir()):
                found.add(int(entry.name))
    return found
