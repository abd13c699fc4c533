"""Opens a transaction, forks, and commits it in both processes; each prints what it was told."""

import os
import signal
import sys

import headgate as hg

lake = hg.Lake.open(sys.argv[1])
tx = lake.transaction()
tx.set_properties({"a": "1"})
child = os.fork()
signal.alarm(60)  # whoever waits for the other's locks or threads is killed
result = tx.commit()
sys.stdout.write(f"{result.version} {result.txid}\n")
sys.stdout.flush()
if child == 0:
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
