"""Run code that nobody trusts in sandboxes of an msb server.

    async with PythonSandbox.create() as sandbox:
        execution = await sandbox.run("print(6 * 7)")
        print(await execution.output())

Needs nothing but Python 3.8 or newer. MSB_SERVER_URL says where the server is
(http://127.0.0.1:5555), MSB_API_KEY has a key for it.
"""

from ._connection import SandboxError
from .command import Command, CommandExecution
from .execution import Execution
from .files import Files
from .metrics import Metrics
from .sandbox import BaseSandbox, NodeSandbox, PythonSandbox

__all__ = [
    "BaseSandbox",
    "Command",
    "CommandExecution",
    "Execution",
    "Files",
    "Metrics",
    "NodeSandbox",
    "PythonSandbox",
    "SandboxError",
]
__version__ = "0.1.0"
