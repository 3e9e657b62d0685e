"""Whether servers on other people's machines can be reached and let us in.

No recording and no text is sent, and nothing that costs money is asked for. Of what a server says
in words nothing is shown, since it may repeat the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx

from worker.cli.finding import Finding, Level
from worker.settings import Settings

TIMEOUT: Final = 10.0
"""Seconds for a connection, and for each read."""
LARGEST: Final = 1 << 20
"""Bytes of an answer that are read."""
NOBODY: Final = "transcriber-doctor"
"""An operation that there is not: who is let in learns that, and who is not does not."""


def look(config: Settings) -> Iterator[Finding]:
    """A line for each remote recogniser that is set up, and for proofreading."""
    chosen = {config.recogniser: "RECOGNISER", config.recogniser_fallback: "RECOGNISER_FALLBACK"}
    chosen.pop("local", None)
    chosen.pop("", None)
    yield Finding(Level.OK, "recogniser", _who(config))
    for name, setting in chosen.items():
        if name not in config.recognisers:
            text = f"{setting} names it and it is not set up: recordings wait for it"
            yield Finding(Level.FAULT, name, text)
    if "openai" in config.recognisers:
        key = config.openai_api_key.get_secret_value()
        yield Server("openai", config.openai_url, key, "OPENAI_URL", "OPENAI_API_KEY").models(
            config.openai_model, "OPENAI_MODEL"
        )
    if "speechkit" in config.recognisers:
        yield from _speechkit(config)
    if config.proofread_url:
        key = config.proofread_api_key.get_secret_value().strip()
        yield Server(
            "proofreading", config.proofread_url, key, "PROOFREAD_URL", "PROOFREAD_API_KEY"
        ).models(config.proofread_model, "PROOFREAD_MODEL")


def _who(config: Settings) -> str:
    if not config.recogniser_fallback:
        return f"{config.recogniser}, and nobody instead of it"
    return f"{config.recogniser}, and {config.recogniser_fallback} where that one stays away"


def _speechkit(config: Settings) -> Iterator[Finding]:
    key = config.speechkit_api_key.get_secret_value()
    token = config.speechkit_iam_token.get_secret_value()
    named = "SPEECHKIT_API_KEY" if key else "SPEECHKIT_IAM_TOKEN (it lives for 12 hours)"
    folder = config.speechkit_folder_id
    headers = {
        "Authorization": f"Api-Key {key}" if key else f"Bearer {token}",
        **({"x-folder-id": folder} if folder else {}),
    }
    for url, path, setting in (
        (config.speechkit_url, f"stt/v3/getRecognition?operation_id={NOBODY}", "SPEECHKIT_URL"),
        (config.speechkit_operations_url, f"operations/{NOBODY}", "SPEECHKIT_OPERATIONS_URL"),
    ):
        server = Server("speechkit", url, "", setting, named, headers)
        status, _ = answer = server.ask(path)
        if status in {400, 404}:
            text = (
                f"{setting} answers, and does not refuse the key; whether it may recognise shows "
                "with the first recording"
            )
            yield Finding(Level.OK, "speechkit", text)
        else:
            yield server.judged(*answer)


@dataclass(frozen=True, slots=True)
class Server:
    """Somebody else's server, and the settings that say where it is and let us in."""

    subject: str
    url: str
    key: str
    url_setting: str
    key_setting: str
    headers: dict[str, str] | None = None

    def models(self, model: str, setting: str) -> Finding:
        """Ask an OpenAI-compatible server what models it has, which shows whether it knows us."""
        status, body = self.ask("models")
        if status != 200:
            return self.judged(status, body)
        names = _names(body)
        if names and model not in names:
            text = f"lets us in, and has no {model} among its models: look at {setting}"
            return Finding(Level.WARNING, self.subject, text)
        known = f", and has {model}" if names else ""
        return Finding(Level.OK, self.subject, f"{self.url_setting} answers and lets us in{known}")

    def ask(self, path: str) -> tuple[int, Any]:
        """The status, 0 without one, and the JSON or the kind of the fault."""
        headers = self.headers or ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        try:
            with (
                httpx.Client(timeout=TIMEOUT) as http,
                http.stream("GET", f"{self.url}/{path}", headers=headers) as response,
            ):
                body = b""
                for block in response.iter_bytes():
                    body += block
                    if len(body) > LARGEST:
                        return response.status_code, None
                return response.status_code, _json(body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # Its own words may show a header.
            return 0, type(error).__name__

    def judged(self, status: int, body: Any) -> Finding:
        """The line about an answer that is not the wanted one."""
        if not status:
            text = f"not reachable ({body}): look at {self.url_setting}, and at the network"
            return Finding(Level.FAULT, self.subject, text)
        if status in {401, 403}:
            text = f"answered {status}, we are not let in: look at {self.key_setting}"
            return Finding(Level.FAULT, self.subject, text)
        if status in {402, 429}:
            text = f"answered {status}: no quota or no money just now; recordings wait for it"
            return Finding(Level.WARNING, self.subject, text)
        if status in {400, 404, 405, 501}:
            text = (
                f"{self.url_setting} answers, but not this question ({status}): whether it is the "
                "right address and we are let in shows with the first recording"
            )
            return Finding(Level.NOTE, self.subject, text)
        if status >= 500:
            text = f"answered {status}: out of order just now"
            return Finding(Level.WARNING, self.subject, text)
        text = f"answered {status}: look at {self.url_setting}"
        return Finding(Level.WARNING, self.subject, text)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _names(body: Any) -> set[str]:
    """The models in an answer to `GET /models`; none where it is another kind of answer."""
    models = body.get("data") if isinstance(body, dict) else None
    if not isinstance(models, list):
        return set()
    return {str(each["id"]) for each in models if isinstance(each, dict) and "id" in each}
