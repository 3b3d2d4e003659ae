"""The collector is on again after a model was made, whatever happens, and stays off if it was."""

import gc
import threading

import pytest

from mopt.collector import collector_paused


def test_paused_and_on_again() -> None:
    assert gc.isenabled()
    with collector_paused(), collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"), collector_paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_on_again_after_many_threads() -> None:
    def pause() -> None:
        for _ in range(200):
            with collector_paused():
                assert not gc.isenabled()

    threads = [threading.Thread(target=pause) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()
