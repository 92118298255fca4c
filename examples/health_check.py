#!/usr/bin/env python3
"""Exits with 0 when the server is healthy and runs code, with 1 otherwise.

Needs sdk/python in PYTHONPATH. MSB_SERVER_URL says where the server is (http://127.0.0.1:5555).
"""
import asyncio
import sys

from microsandbox_wrapper import MicrosandboxWrapper, MicrosandboxWrapperError


async def main():
    try:
        async with MicrosandboxWrapper() as wrapper:
            health = await wrapper.health_check()
            result = await wrapper.execute_code("print(6 * 7)", timeout=60)
    except MicrosandboxWrapperError as error:
        print(error.get_user_friendly_message(), file=sys.stderr)
        return 1
    print(f"server: {health['status']}, code: {result.stdout.strip()}, "
          f"{result.execution_time_ms} ms")
    return 0 if health["status"] == "healthy" and result.stdout == "42\n" else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
