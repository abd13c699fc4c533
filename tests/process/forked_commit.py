"""Forks while another thread is inside a commit; the child then commits on the same handle.

The thread is held at its decisive request until the child has ended, so every lock that a commit holds is
taken at the moment of the fork. Prints what each was told.
"""

import os
import signal
import sys
import threading

import pyarrow as pa

import headgate as hg
from headgate.storage.location import open_store
from headgate.storage.requests import Create, Put, Rename, Request
from headgate.testing.faulty import Delayed, Fault, faulty

place = sys.argv[1]
inside, child_ended = threading.Event(), threading.Event()


def decides(request: Request) -> bool:
    """Whether the request is the one that decides a version, or in FileTracker proposes a record for it."""
    proposes = isinstance(request, Put) and "/commit/" in request.key and b"txid" in request.data
    return proposes or isinstance(request, Create | Rename)


def hold() -> None:
    inside.set()
    child_ended.wait()


def commit_in_child(lake: hg.Lake, tx: hg.Transaction) -> None:
    # Whatever waits for a lock that nobody will give back is killed by this.
    signal.alarm(30)
    lake.set_properties({"child": "1"})
    lake.table("forked.rows").append(pa.table({"id": [1]}))
    told = tx.commit()
    sys.stdout.write(f"{told.version} {told.txid}\n")
    sys.stdout.flush()


store, schedule = faulty(open_store(place))
lake = hg.Lake.open(store)
lake.table("forked.rows").append(pa.table({"id": [0]}))
tx = lake.transaction()
tx.set_properties({"parent": "1"})
schedule.add(Fault(decides, Delayed(hold)))
thread = threading.Thread(target=tx.commit)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    commit_in_child(lake, tx)
    os._exit(0)
_, status = os.waitpid(child, 0)
child_ended.set()
thread.join()
sys.stdout.write(f"{tx.result.version} {tx.result.txid}\n")
sys.exit(os.waitstatus_to_exitcode(status))
