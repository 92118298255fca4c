#!/usr/bin/env python3
"""From a file of data to a chart, with an error on the way that is corrected.

Writes chart.png into the folder it is run in. Needs sdk/python in PYTHONPATH. MSB_SERVER_URL says
where the server is (http://127.0.0.1:5555).
"""
import asyncio
import pathlib

from microsandbox import PythonSandbox

SALES = """month,region,sales
2026-01,north,120
2026-01,south,95
2026-02,north,140
2026-02,south,110
2026-03,north,90
2026-03,south,160
"""

FIRST_TRY = """
import pandas as pd
data = pd.read_csv("sales.csv")
table = data.pivot(index="month", columns="area", values="sales")
"""

SECOND_TRY = """
import matplotlib.pyplot as plt
table = data.pivot(index="month", columns="region", values="sales")
axes = table.plot.bar(rot=0, title="Sales by region")
axes.set_ylabel("sales")
plt.savefig("chart.png", dpi=100, bbox_inches="tight")
print(table.to_string())
"""


async def main():
    async with PythonSandbox.create(memory=1024) as sandbox:
        await sandbox.files.write("sales.csv", SALES)

        first = await sandbox.run(FIRST_TRY)
        print("The first try failed:", (await first.error()).strip().splitlines()[-1])

        columns = await sandbox.run("print(list(data.columns))")
        print("What the data has:", await columns.output())

        second = await sandbox.run(SECOND_TRY)
        if second.has_error():
            raise SystemExit(await second.error())
        print(await second.output())

        picture = await sandbox.files.read("chart.png")
        pathlib.Path("chart.png").write_bytes(picture)
        print(f"chart.png: {len(picture)} bytes")


if __name__ == "__main__":
    asyncio.run(main())
