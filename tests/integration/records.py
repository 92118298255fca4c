"""Runs code in the sandbox named first and prints its records, one line of JSON each."""
import json
import os
import struct
import sys

from agent_harness import RESULTS
from keeper_client import Keeper

with Keeper(os.environ["MSB_HOME"], sys.argv[1]) as keeper:
    data = keeper.run(sys.argv[2])[0].get(RESULTS, b"")
while data:
    (length,) = struct.unpack_from("<I", data)
    print(json.dumps(json.loads(data[4:4 + length]), sort_keys=True))
    data = data[4 + length:]
