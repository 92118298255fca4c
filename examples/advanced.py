#!/usr/bin/env python3
"""Several sessions at once, state that stays, limits and errors.

Needs sdk/python in PYTHONPATH. MSB_SERVER_URL says where the server is (http://127.0.0.1:5555).
"""
import asyncio

from microsandbox_wrapper import (
    CodeExecutionError,
    MicrosandboxWrapper,
    ResourceLimitError,
    SandboxFlavor,
    WrapperConfig,
)


async def side_by_side(wrapper):
    """Two languages and a command, each in a session of its own."""
    results = await asyncio.gather(
        wrapper.execute_code("print(sum(range(10)))", template="python"),
        wrapper.execute_code("console.log([1, 2, 3].map((n) => n * n))", template="node"),
        wrapper.execute_command("uname", ["-s"]))
    for result in results:
        print(result.stdout.strip())
    for result in results:
        await wrapper.stop_session(result.session_id)


async def state_that_stays(wrapper):
    first = await wrapper.execute_code("import math\nradius = 2", flavor=SandboxFlavor.SMALL)
    again = await wrapper.execute_code("print(round(math.pi * radius ** 2, 2))",
                                       session_id=first.session_id)
    print(again.stdout.strip(), "- the same session:", not again.session_created)
    return first.session_id


async def what_goes_wrong(wrapper, session_id):
    failed = await wrapper.execute_code("open('/nowhere')", session_id=session_id)
    print("an error in the code is a result:", failed.stderr.strip().splitlines()[-1])
    try:
        await wrapper.execute_code("while True: pass", session_id=session_id, timeout=1)
    except CodeExecutionError as error:
        print("what takes too long is not:", error.context["error_type"])
    try:
        await wrapper.execute_code("1", session_id="one-too-many")
        await wrapper.execute_code("1", session_id="two-too-many")
    except ResourceLimitError as error:
        print(error.get_user_friendly_message().splitlines()[0])


async def main():
    config = WrapperConfig.from_env()
    config.max_concurrent_sessions = 2
    config.enable_lru_eviction = False
    async with MicrosandboxWrapper() as wrapper:
        await side_by_side(wrapper)
    async with MicrosandboxWrapper(config) as wrapper:
        session_id = await state_that_stays(wrapper)
        await what_goes_wrong(wrapper, session_id)
        stats = await wrapper.get_resource_stats()
        print(f"{stats.active_sessions} sessions, {stats.total_memory_mb} MB")


if __name__ == "__main__":
    asyncio.run(main())
