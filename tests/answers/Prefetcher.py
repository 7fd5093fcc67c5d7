"""Answers to Prefetcher."""

import collections
import itertools
import queue
import threading
import time
from concurrent import futures

import torch
from bank import right, wrong


def moved(batch, device, non_blocking=True):
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    return tuple(part.to(device, non_blocking=non_blocking) for part in batch)


def kept_for(main, batch):
    """Keep the batch's memory until the work that is queued in a stream has ended."""
    for part in (batch,) if isinstance(batch, torch.Tensor) else batch:
        part.record_stream(main)


class Base:
    """What most answers share: the loader, a stream beside it, and len."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = None if self.device.type == "cpu" else torch.Stream(self.device)

    def __len__(self):
        return len(self.loader)

    def start(self, batch):
        """Start a copy in the side stream, after the work that is queued; return it and the event of its end.

        So the copy may be given the memory of a batch that was dropped.
        """
        if self.stream is None:
            return moved(batch, self.device), None
        self.stream.wait_stream(torch.accelerator.current_stream(self.device))
        with self.stream:
            there = moved(batch, self.device)
        return there, self.stream.record_event()

    def wait(self, event):
        if event is not None:
            torch.accelerator.current_stream(self.device).wait_event(event)


class WithoutWaits(Base):
    """Its copies wait for no other work, so something else has to keep the memory of dropped batches."""

    def start(self, batch):
        if self.stream is None:
            return batch, None
        with self.stream:
            there = moved(batch, self.device)
        return there, self.stream.record_event()


@right
class OneAheadByEvents(Base):
    def __iter__(self):
        waiting = None
        for batch in self.loader:
            started = self.start(batch)
            if waiting is not None:
                self.wait(waiting[1])
                yield waiting[0]
            waiting = started
        if waiting is not None:
            self.wait(waiting[1])
            yield waiting[0]


@right
class OneAheadByStreams(Base):
    def __iter__(self):
        batches = iter(self.loader)
        ready = next(batches, None)
        if ready is None:
            return
        ready = self.start(ready)[0]
        while ready is not None:
            if self.stream is not None:
                torch.accelerator.current_stream(self.device).wait_stream(self.stream)
            here, ready = ready, next(batches, None)
            if ready is not None:
                ready = self.start(ready)[0]
            yield here


@right
class WithAQueueOfTwo(Base):
    def __iter__(self):
        queue, batches = collections.deque(), iter(self.loader)
        for batch in itertools.islice(batches, 2):
            queue.append(self.start(batch))
        while queue:
            there, event = queue.popleft()
            for batch in itertools.islice(batches, 1):
                queue.append(self.start(batch))
            self.wait(event)
            yield there


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class AsAnIterator:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device
        self.module = None if device.type == "cpu" else torch.get_device_module(device)
        self.side = self.module.Stream(device) if self.module else None

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        self.batches = iter(self.loader)
        self._fetch()
        return self

    def _fetch(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.upcoming = None
            return
        if self.side is None:
            self.upcoming = batch
            return
        with self.module.stream(self.side):
            self.upcoming = moved(batch, self.device)

    def __next__(self):
        if self.side is not None:
            self.module.current_stream(self.device).wait_stream(self.side)
        batch = self.upcoming
        if batch is None:
            raise StopIteration
        self._fetch()
        return batch


@right
class AsAnIteratorThatTellsTheAllocator(AsAnIterator):
    def __next__(self):
        batch = super().__next__()
        if self.side is not None:
            kept_for(self.module.current_stream(self.device), batch)
        return batch


@right
class ByAThread(WithoutWaits):
    """A thread loads ahead and starts the copies; each thread has its own current stream."""

    def __iter__(self):
        ahead, done = queue.Queue(maxsize=1), object()

        def load():
            for batch in self.loader:
                ahead.put(self.start(batch))
            ahead.put(done)

        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        while (item := ahead.get()) is not done:
            self.wait(item[1])
            if self.stream is not None:
                kept_for(torch.accelerator.current_stream(self.device), item[0])
            yield item[0]
            item = None  # the last batch is not kept while the next one is waited for
        loading.join()


@right
class ByAThreadThatLoadsSlowly(ByAThread):
    """Decoding takes it longer than the clock's first turns, as a busy machine would make it."""

    def start(self, batch):
        time.sleep(0.003)
        return super().start(batch)


@wrong("where each step waits", row="copies run while batches are worked on")
class ByAThreadInStep(ByAThread):
    """The thread copies on a stream of its own, and starts the next copy only when asked for it."""

    def __iter__(self):
        wanted, there = queue.Queue(), queue.Queue()

        def load():
            for batch in self.loader:
                wanted.get()
                there.put(self.start(batch))
            wanted.get()
            there.put(None)

        threading.Thread(target=load, daemon=True).start()
        wanted.put(True)
        while (item := there.get()) is not None:
            self.wait(item[1])
            yield item[0]
            wanted.put(True)


@right
class ByAPoolOfOneThread(Base):
    def __iter__(self):
        batches, kept = iter(self.loader), None
        with futures.ThreadPoolExecutor(1) as pool:
            upcoming = pool.submit(next, batches, None)
            while (batch := upcoming.result()) is not None:
                there, event = self.start(batch)
                upcoming = pool.submit(next, batches, None)
                ready, kept = kept, (there, event)
                if ready is not None:
                    self.wait(ready[1])
                    yield ready[0]
        if kept is not None:
            self.wait(kept[1])
            yield kept[0]


@wrong(
    "gave 5 batches, and the loader has 4, after an epoch that was broken off",
    row="len, and again from the start",
)
class KeepsABatchOfABrokenEpoch(Base):
    def __init__(self, loader, device):
        super().__init__(loader, device)
        self.waiting = []

    def __iter__(self):
        for batch in self.loader:
            self.waiting.append(self.start(batch))
            if len(self.waiting) > 1:
                there, event = self.waiting.pop(0)
                self.wait(event)
                yield there
        for there, event in self.waiting:
            self.wait(event)
            yield there
        self.waiting.clear()


@wrong("the batches do not come to an end", row="every batch, in order, on the device")
class NeverEnds(Base):
    def __iter__(self):
        batches = iter(self.loader)
        while True:
            batch = next(batches, None)
            yield batch if batch is None else self.start(batch)[0]


@wrong("batch 0 is torch.float32, not torch.float64", row="every batch, in order, on the device")
class InFloat32(Base):
    """Whatever the loader's dtype is."""

    def __iter__(self):
        for batch in self.loader:
            if isinstance(batch, torch.Tensor):
                batch = batch.float()
            there, event = self.start(batch)
            self.wait(event)
            yield there


@wrong("before its copy had ended", row="no batch is used before its copy has ended")
class TheStreamOfTheFirstEpoch(OneAheadByEvents):
    """The stream that is to wait is asked for once, and the work is done in another one later."""

    def __init__(self, loader, device):
        super().__init__(loader, device)
        self.main = torch.accelerator.current_stream(device) if self.stream else None

    def wait(self, event):
        if event is not None:
            self.main.wait_event(event)


@wrong("before its copy had ended", row="no batch is used before its copy has ended")
class WaitsInTheFirstEpoch(OneAheadByEvents):
    epochs = 0

    def __iter__(self):
        self.epochs += 1
        return super().__iter__()

    def wait(self, event):
        if self.epochs == 1:
            super().wait(event)


@wrong("was copied: it was there already", row="every batch, in order, on the device")
class CopiesOnTheCPU(OneAheadByEvents):
    def start(self, batch):
        if self.stream is None:
            clones = tuple(part.clone() for part in batch) if isinstance(batch, tuple) else batch.clone()
            return clones, None
        return super().start(batch)


@wrong("stand in the stream that computes, behind its work", row="copies run while batches are worked on")
class PlainLoop(Base):
    def __iter__(self):
        for batch in self.loader:
            yield moved(batch, self.device)


@wrong("does not wait for the copy", row="no batch is used before its copy has ended")
class OneAheadOnOneStream(Base):
    def __iter__(self):
        waiting = None
        for batch in self.loader:
            started = moved(batch, self.device)
            if waiting is not None:
                yield waiting
            waiting = started
        if waiting is not None:
            yield waiting


@wrong("before its copy had ended", row="no batch is used before its copy has ended")
class NobodyWaits(Base):
    def __iter__(self):
        waiting = None
        for batch in self.loader:
            started, _ = self.start(batch)
            if waiting is not None:
                yield waiting
            waiting = started
        if waiting is not None:
            yield waiting


@wrong("the host waits for the device (event.synchronize())", row="copies run while batches are worked on")
class SideStreamButNotAhead(Base):
    def __iter__(self):
        for batch in self.loader:
            there, event = self.start(batch)
            if event is not None:
                event.synchronize()
            yield there
            if self.stream is not None:
                torch.accelerator.synchronize(self.device)


@wrong("were fetched before they were wanted", row="a few batches ahead, and not all of them")
class AllAtOnce(Base):
    def __iter__(self):
        started = [self.start(batch) for batch in self.loader]
        for there, event in started:
            self.wait(event)
            yield there


@wrong("has no len", row="len, and again from the start")
class WithoutLen(OneAheadByEvents):
    __len__ = None

    def __getattribute__(self, name):
        if name == "__len__":
            raise AttributeError(name)
        return super().__getattribute__(name)


@wrong("gave 4 batches, and the loader has 5", row="every batch, in order, on the device")
class LastOneForgotten(Base):
    def __iter__(self):
        waiting = None
        for batch in self.loader:
            started = self.start(batch)
            if waiting is not None:
                self.wait(waiting[1])
                yield waiting[0]
            waiting = started


@wrong("and the loader has 4, in the second epoch", row="len, and again from the start")
class OnlyOnce(Base):
    def __init__(self, loader, device):
        super().__init__(loader, device)
        self.batches = OneAheadByEvents(loader, device).__iter__()

    def __iter__(self):
        return self.batches


@wrong("is on cpu, not", row="every batch, in order, on the device")
class NotMoved(Base):
    def __iter__(self):
        return iter(self.loader)


@wrong("your code raised AttributeError", row="every batch, in order, on the device")
class TensorsAlone(Base):
    def __iter__(self):
        waiting = None
        for batch in self.loader:
            if self.stream is None:
                yield batch.to(self.device)
                continue
            with self.stream:
                there = batch.to(self.device, non_blocking=True)
            started = there, self.stream.record_event()
            if waiting is not None:
                self.wait(waiting[1])
                yield waiting[0]
            waiting = started
        if waiting is not None:
            self.wait(waiting[1])
            yield waiting[0]


@wrong("is a list, not a tuple of tensors", row="every batch, in order, on the device")
class ListsForTuples(OneAheadByEvents):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch if isinstance(batch, torch.Tensor) else list(batch)


@wrong("where each step waits", row="copies run while batches are worked on")
class NothingAhead(Base):
    def __iter__(self):
        for batch in self.loader:
            there, arrived = self.start(batch)
            self.wait(arrived)
            yield there


@wrong("was given out before its copy had ended", row="no batch is used before its copy has ended")
class WaitsForTensorsAlone(OneAheadByEvents):
    def start(self, batch):
        there, arrived = super().start(batch)
        return there, arrived if isinstance(there, torch.Tensor) else None


@wrong("copies and work took turns", row="copies run while batches are worked on")
class BlocksForTuples(OneAheadByEvents):
    def start(self, batch):
        if isinstance(batch, tuple):
            return tuple(part.to(self.device) for part in batch), None
        return super().start(batch)


@wrong("is a tuple, not a tensor", row="every batch, in order, on the device")
class TuplesAlone(OneAheadByEvents):
    def start(self, batch):
        if self.stream is None:
            return tuple(batch), None
        with self.stream:
            there = tuple(part.to(self.device, non_blocking=True) for part in batch)
        return there, self.stream.record_event()


@wrong("made without", row="copies run while batches are worked on")
class Blocks(Base):
    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        w = None
        for b in self.loader:
            with self.stream:
                t = moved(b, self.device, False)
            ev = self.stream.record_event()
            if w is not None:
                torch.accelerator.current_stream(self.device).wait_event(w[1])
                yield w[0]
            w = (t, ev)
        if w is not None:
            torch.accelerator.current_stream(self.device).wait_event(w[1])
            yield w[0]


@wrong("the host waits for the device (stream.synchronize())", row="copies run while batches are worked on")
class HostWaits(Base):
    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        w = None
        for b in self.loader:
            with self.stream:
                t = moved(b, self.device)
            self.stream.synchronize()
            if w is not None:
                yield w
            w = t
        if w is not None:
            yield w


@wrong("a copy from pageable memory", row="copies run while batches are worked on")
class CopiesItFirst(Base):
    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        w = None
        for b in self.loader:
            b = b.clone() if isinstance(b, torch.Tensor) else tuple(p.clone() for p in b)
            with self.stream:
                t = moved(b, self.device)
            ev = self.stream.record_event()
            if w is not None:
                torch.accelerator.current_stream(self.device).wait_event(w[1])
                yield w[0]
            w = (t, ev)
        if w is not None:
            torch.accelerator.current_stream(self.device).wait_event(w[1])
            yield w[0]


@wrong("waits for the copy of the next batch as well", row="copies run while batches are worked on")
class WaitsForTheNextAsWell(Base):
    """waits for the whole stream, the next copy included"""

    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        w = None
        for b in self.loader:
            with self.stream:
                t = moved(b, self.device)
            if w is not None:
                torch.accelerator.current_stream(self.device).wait_stream(self.stream)
                yield w
            w = t
        if w is not None:
            torch.accelerator.current_stream(self.device).wait_stream(self.stream)
            yield w


@wrong("batch 0 came in the place of batch 1", row="every batch, in order, on the device")
class FirstTwice(Base):
    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        w = None
        for b in self.loader:
            with self.stream:
                t = moved(b, self.device)
            ev = self.stream.record_event()
            if w is None:
                w = (t, ev)
            torch.accelerator.current_stream(self.device).wait_event(w[1])
            yield w[0]
            w = (t, ev)


@wrong("5 batches were fetched", row="a few batches ahead, and not all of them")
class FiveAhead(Base):
    def __iter__(self):
        q = collections.deque()
        it = iter(self.loader)

        def fill():
            b = next(it, None)
            if b is None:
                return
            if self.stream is None:
                q.append((b, None))
                return
            with self.stream:
                t = moved(b, self.device)
            q.append((t, self.stream.record_event()))

        for _ in range(5):
            fill()
        while q:
            t, ev = q.popleft()
            fill()
            if ev is not None:
                torch.accelerator.current_stream(self.device).wait_event(ev)
            yield t


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class NextStartedLast(Base):
    def __iter__(self):
        if self.stream is None:
            yield from iter(self.loader)
            return
        it = iter(self.loader)

        def pre():
            try:
                b = next(it)
            except StopIteration:
                return None
            with self.stream:
                return moved(b, self.device)

        nxt = pre()
        while nxt is not None:
            torch.accelerator.current_stream(self.device).wait_stream(self.stream)
            cur, nxt = (nxt, pre())
            yield cur


@right
class NextStartedLastAndKept(NextStartedLast):
    def __iter__(self):
        for batch in super().__iter__():
            if self.stream is not None:
                kept_for(torch.accelerator.current_stream(self.device), batch)
            yield batch


@wrong("batch 3 came in the place of batch 0, in the second epoch", row="len, and again from the start")
class KeepsTheFirstEpoch(OneAheadByEvents):
    kept = None

    def __iter__(self):
        if self.kept is not None:
            yield from self.kept
            return
        kept = []
        for batch in super().__iter__():
            kept.append(batch)
            yield batch
        self.kept = kept


@wrong(
    "the stream that is current then does not wait for the copy",
    row="no batch is used before its copy has ended",
)
class TheStreamAsTheEpochBegan(OneAheadByEvents):
    """The stream that is to wait is asked for once an epoch, and the work may go on in another one."""

    def __iter__(self):
        self.main = torch.accelerator.current_stream(self.device) if self.stream else None
        yield from super().__iter__()

    def wait(self, event):
        if event is not None:
            self.main.wait_event(event)


@wrong("the host waits for the device (event.synchronize())", row="copies run while batches are worked on")
class HostWaitsForEachCopy(OneAheadByEvents):
    def wait(self, event):
        if event is not None:
            event.synchronize()


@wrong("the host waited until each batch had arrived", row="copies run while batches are worked on")
class HostAsksUntilItIsThere(OneAheadByEvents):
    def wait(self, event):
        while event is not None and not event.query():
            pass


@right
class AnEventThatTheStreamWaitsFor(OneAheadByEvents, WithoutWaits):
    """The memory is kept from other copies, too, until the work on it is done."""

    def wait(self, event):
        if event is not None:
            event.wait(torch.accelerator.current_stream(self.device))

    def __iter__(self):
        for batch in super().__iter__():
            if self.stream is not None:
                kept_for(torch.accelerator.current_stream(self.device), batch)
            yield batch


@right
class AnotherStreamForEachEpoch:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        return iter(self.loader) if self.device.type == "cpu" else self.ahead()

    def ahead(self):
        module = torch.get_device_module(self.device)
        side, batches = module.Stream(self.device), iter(self.loader)

        def started():
            for batch in batches:
                with module.stream(side):
                    there = moved(batch, self.device)
                    arrived = module.Event()
                    arrived.record(side)
                return there, arrived
            return None

        upcoming = started()
        while upcoming is not None:
            (batch, arrived), upcoming = upcoming, started()
            module.current_stream(self.device).wait_event(arrived)
            kept_for(module.current_stream(self.device), batch)
            yield batch


@wrong("batch 0 is on meta, not", row="every batch, in order, on the device")
class WithoutNumbers(Base):
    def __iter__(self):
        for batch in self.loader:
            yield moved(batch, "meta")


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class NothingKeepsTheMemory(OneAheadByEvents, WithoutWaits):
    """As most programs write it: on an H200, 175 of 200 sums were wrong."""


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class TheSideStreamWaitsForItself(OneAheadByEvents):
    """In the block the side stream is the current one."""

    def start(self, batch):
        if self.stream is None:
            return batch, None
        with self.stream:
            self.stream.wait_stream(torch.accelerator.current_stream(self.device))
            there = moved(batch, self.device)
        return there, self.stream.record_event()


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class KeepsTensorsAlone(NothingKeepsTheMemory):
    def __iter__(self):
        for batch in super().__iter__():
            if self.stream is not None and isinstance(batch, torch.Tensor):
                kept_for(torch.accelerator.current_stream(self.device), batch)
            yield batch


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class KeptForTheSideStream(NothingKeepsTheMemory):
    """Of the stream that allocated the memory the allocator knows already."""

    def __iter__(self):
        for batch in super().__iter__():
            if self.stream is not None:
                kept_for(self.stream, batch)
            yield batch


@right
class ThreeBuffers(Base):
    """Copies go in turn into memory that stays, each after the work on the batch that was there."""

    def __iter__(self):
        if self.stream is None:
            yield from self.loader
            return
        buffers, done, waiting = [()] * 3, [None] * 3, None
        for number, batch in enumerate(self.loader):
            place = number % 3
            if done[place] is not None:
                self.stream.wait_event(done[place])
            parts = (batch,) if isinstance(batch, torch.Tensor) else batch
            with self.stream:
                if [(one.shape, one.dtype) for one in buffers[place]] != [
                    (one.shape, one.dtype) for one in parts
                ]:
                    buffers[place] = [torch.empty_like(part, device=self.device) for part in parts]
                for buffer, part in zip(buffers[place], parts, strict=True):
                    buffer.copy_(part, non_blocking=True)
            there = buffers[place][0] if isinstance(batch, torch.Tensor) else tuple(buffers[place])
            started = there, self.stream.record_event(), place
            if waiting is not None:
                yield self.given(*waiting)
                done[waiting[2]] = torch.accelerator.current_stream(self.device).record_event()
            waiting = started
        if waiting is not None:
            yield self.given(*waiting)

    def given(self, there, event, place):
        self.wait(event)
        return there


@wrong("was copied over while work still read it", row="no batch's memory is reused while work reads it")
class ThreeBuffersThatNothingWaitsFor(ThreeBuffers):
    """The memory stays, and the next copy into it does not wait for the work on the last one."""

    def __iter__(self):
        if self.stream is not None:
            self.stream.wait_event = lambda event: None
        yield from super().__iter__()
