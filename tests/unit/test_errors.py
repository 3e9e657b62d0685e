"""Errors: found at any depth, told as one chain, and never mistaken for one another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import errors
from worker.errors import (
    ConfigurationError,
    LeaseLost,
    NoWork,
    PocketBaseError,
    PocketBaseUnavailable,
    Problem,
    RecogniserUnavailable,
    TranscriberError,
    causes,
    describe,
    find,
)


def chain(*links: BaseException) -> BaseException:
    """The first error, raised from the second, raised from the third..."""
    for outer, inner in pairwise(links):
        outer.__cause__ = inner
    return links[0]


@given(st.integers(min_value=0, max_value=50))
def test_a_kind_is_found_at_any_depth(depth):
    sought = NoWork("uploaded")
    layers = [(RuntimeError, TranscriberError, ValueError)[n % 3](str(n)) for n in range(depth)]
    error = chain(*layers, sought)
    assert find(error, NoWork) is sought
    assert list(causes(error)) == [*layers, sought]
    assert find(error, LeaseLost) is None


def test_a_kind_is_found_by_its_base():
    error = chain(RuntimeError("outside"), PocketBaseUnavailable("claim", 503))
    assert find(error, PocketBaseError).status == 503


def test_what_was_only_being_handled_is_no_cause():
    """`__context__` says what happened before, not why: a foreign sign must not get in by it."""
    with pytest.raises(RecogniserUnavailable) as caught:
        fail_while_handling()
    assert isinstance(caught.value.__context__, KeyError)
    assert find(caught.value, KeyError) is None


def fail_while_handling() -> None:
    try:
        {}["nothing"]
    except KeyError:
        raise RecogniserUnavailable("remote", "refused")  # noqa: B904 - that is the point


def test_a_chain_reads_context_and_cause():
    error = chain(
        TranscriberError("check operation"), RecogniserUnavailable("remote", "quota exceeded")
    )
    assert describe(error) == "check operation: recogniser remote: quota exceeded"


def test_an_error_without_words_is_told_by_its_type():
    assert (
        describe(chain(TranscriberError("look"), KeyboardInterrupt())) == "look: KeyboardInterrupt"
    )


def test_a_configuration_error_names_every_problem():
    error = ConfigurationError(Problem("DATA_DIR", "is missing"), Problem("LOCALE", "must be ru"))
    assert "DATA_DIR: is missing" in str(error)
    assert "LOCALE: must be ru" in str(error)
    assert [problem.key for problem in error.problems] == ["DATA_DIR", "LOCALE"]


def test_every_error_of_the_product_is_one_of_its_tree():
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, BaseException)
    ]
    assert len(kinds) > 20
    assert all(issubclass(each, TranscriberError) for each in kinds)


def test_messages_are_lower_case_without_a_full_stop():
    """errors.ru.md: an error reads as "context: cause"."""
    examples = [
        NoWork("uploaded"), LeaseLost("abc"), errors.Cancelled(), errors.AlreadyRunning("x"),
        PocketBaseUnavailable("claim"), PocketBaseUnavailable("claim", 502),
        errors.PocketBaseRefused("claim", 409, "lease_lost"), errors.UnreadableMedia("no samples"),
        errors.NoAudioTrack(), errors.TooLong(3600), errors.DecoderDied("ended by SIGSEGV"),
        RecogniserUnavailable("remote", "refused"), errors.RecogniserRefused("remote", "too noisy"),
        errors.EngineDied("killed"), errors.ModelMissing("base", "no such folder"),
        errors.ModelCorrupt("base", "model.bin", "a", "b"),
    ]  # fmt: skip
    for each in examples:
        text = str(each)
        assert text[0].islower(), text
        assert not text.endswith("."), text
        assert not text.startswith(("failed", "error", "could not")), text
