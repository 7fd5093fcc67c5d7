"""What a page asks of the live picture."""

import asyncio
import threading

import devlab.sim
from devlab.explore.live import Live
from devlab.explore.pictures import pipeline


def test_what_a_page_asks_for_is_done_in_the_thread_of_the_cells():
    """JupyterLab passes it on from another thread, in which the simulated host would pin for nothing."""
    devlab.sim.enable()
    explorer, threads = pipeline.explorer(), []
    explorer.follows = lambda before, now: threads.append(threading.current_thread()) or now
    pipeline.run_epoch.cache_clear()

    async def ask_from_another_thread():
        live = Live(explorer, "mark")
        pressed = {"asks": {"set": {"pinned": True, "non_blocking": True}}}
        await asyncio.to_thread(live._handle_custom_msg, pressed, [])
        await asyncio.sleep(0.01)

    asyncio.run(ask_from_another_thread())
    assert threads == [threading.main_thread()]
    assert "the epoch takes 389 µs" in explorer.scene.caption
