"""Opens a transaction that another handle then cancels, forks, and tries to commit it in both processes."""

import os
import signal
import sys

import headgate as hg

lake = hg.Lake.open(sys.argv[1])
tx = lake.transaction()
tx.set_properties({"a": "1"})
other = hg.Lake.open(sys.argv[1])
other.cancel(tx.txid)
for number in range(25):  # past two checkpoints
    other.set_properties({"n": str(number)})
child = os.fork()
signal.alarm(60)
try:
    tx.commit()
    sys.stdout.write("committed\n")
except hg.ConflictError as error:
    sys.stdout.write(f"{error.kind} {tx.txid}\n")
sys.stdout.flush()
if child == 0:
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
