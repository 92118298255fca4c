"""Tools for models, over pipes and over HTTP, with real sandboxes."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from mcp_client import MSB, StdioClient, kinds_of, text_of
from session_server import SessionTest


def session_of(result):
    return re.search(r"session_id ([A-Za-z0-9_-]+)", text_of(result)).group(1)


def sandboxes():
    listed = subprocess.run([MSB, "ps", "--json"], capture_output=True, check=True, timeout=30)
    return [box["name"] for box in json.loads(listed.stdout)]


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not in time")
        time.sleep(0.05)


class Pipes(unittest.TestCase):
    arguments = ()
    environment = {}

    def setUp(self):
        self.client = StdioClient(*self.arguments, environment=self.environment)
        self.client.initialize()

    def tearDown(self):
        self.assertEqual(self.client.close(), 0)
        self.client.process.stdout.close()
        self.assertLess(self.client.longest, 4 << 20)
        until(lambda: sandboxes() == [])

    def python(self, code, **arguments):
        return self.client.call("sandbox_run_python", code=code, **arguments)

    def assert_refused(self, result, code, part):
        self.assertTrue(result["isError"], result)
        self.assertEqual(result["structuredContent"]["error"], code)
        self.assertIn(part, text_of(result))


class Offer(Pipes):
    def test_ten_tools_for_models(self):
        tools = self.client.request("tools/list")["result"]["tools"]
        self.assertEqual(len(tools), 10)
        for tool in tools:
            self.assertTrue(tool["title"] and tool["description"] and tool["annotations"], tool)
            self.assertEqual(tool["inputSchema"]["type"], "object")

    def test_prompts(self):
        prompt = self.client.request(
            "prompts/get",
            {"name": "create_node_sandbox", "arguments": {"sandbox_name": "n1", "namespace": "team"}})
        text = prompt["result"]["messages"][0]["content"]["text"]
        for part in ("n1", "team", "microsandbox/node"):
            self.assertIn(part, text)

    def test_completion_of_sessions(self):
        session = session_of(self.python("pass"))
        complete = lambda value, name="session": self.client.request("completion/complete", {
            "ref": {"type": "ref/resource", "uri": "sandbox://{session}/{+path}"},
            "argument": {"name": name, "value": value}})["result"]["completion"]["values"]
        self.assertEqual(complete(session[:8]), [session])
        self.assertEqual(complete("nobody"), [])
        self.assertEqual(complete("", "path"), [])

    def test_unknown_tool(self):
        error = self.client.request("tools/call", {"name": "sandbox_nothing"})["error"]
        self.assertEqual(error["code"], -32602)

    def test_wrong_arguments_of_every_tool(self):
        for arguments in (), ("--tools", "sessions"):
            client = StdioClient(*arguments)
            client.initialize()
            for tool in client.request("tools/list")["result"]["tools"]:
                names = [*tool["inputSchema"]["properties"], "unknown"]
                for value in (None, 5, -1, 1.5, True, [], [1], {}, {"x": {}}, "", "../..", "a b", "é" * 5000):
                    given = {name: value for name in names if name != "params"}
                    for wrong in (given, {"params": given}, {"params": value}):
                        answer = client.request("tools/call", {"name": tool["name"], "arguments": wrong})
                        self.assertIn("content", answer["result"])
            self.assertEqual(client.request("ping")["result"], {})
            self.assertEqual(client.close(), 0)
            client.process.stdout.close()

    def test_nothing_is_touched_before_the_first_call(self):
        self.client.request("tools/list")
        self.client.request("resources/list")
        children = f"/proc/{self.client.process.pid}/task/{self.client.process.pid}/children"
        with open(children, encoding="ascii") as file:
            self.assertEqual(file.read(), "")


class Python(Pipes):
    def test_variables_stay_in_a_session(self):
        first = self.python("x = 20")
        self.assertRegex(session_of(first), "^sess_[0-9a-f]{12}$")
        again = self.python("print(x + 22)", session_id=session_of(first))
        self.assertTrue(text_of(again).startswith("42\n[exit code 0, "), text_of(again))
        self.assertNotIn("structuredContent", again)

    def test_an_error_of_the_code_is_a_normal_result(self):
        result = self.python("1/0")
        self.assertNotIn("isError", result)
        self.assertIn("[stderr]", text_of(result))
        self.assertIn("ZeroDivisionError", text_of(result))
        self.assertIn("[exit code 1, ", text_of(result))

    def test_figures_and_files(self):
        result = self.python(
            "import matplotlib.pyplot as plt\n"
            "plt.plot([1, 3, 2])\nplt.savefig('chart.png')\nplt.close()\n"
            "open('a b.csv', 'w').write('x,y\\n1,2\\n')")
        session = session_of(result)
        self.assertEqual(kinds_of(result), ["text", "image", "resource_link"])
        self.assertTrue(base64.b64decode(result["content"][1]["data"]).startswith(b"\x89PNG"))
        self.assertEqual(result["content"][1]["mimeType"], "image/png")
        uri = f"sandbox://{session}/a%20b.csv"
        self.assertEqual(result["content"][2]["uri"], uri)
        self.assertIn(uri, text_of(result))
        read = self.client.request("resources/read", {"uri": uri})["result"]["contents"][0]
        self.assertEqual(read["text"], "x,y\n1,2\n")
        picture = self.client.request("resources/read", {"uri": f"sandbox://{session}/chart.png"})
        self.assertTrue(base64.b64decode(picture["result"]["contents"][0]["blob"]).startswith(b"\x89PNG"))

    def test_the_chart_of_the_documentation(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs")
        with open(os.path.join(folder, "mcp.md"), encoding="utf-8") as file:
            demo = file.read().split("## A chart, word for word")[1]
        upload = json.loads(re.search("```json\n(.*?)```", demo, re.S).group(1))
        session = self.client.call("sandbox_upload_file", **upload)["structuredContent"]["session_id"]
        result = self.python(re.search("```python\n(.*?)```", demo, re.S).group(1), session_id=session)
        self.assertEqual(kinds_of(result), ["text", "image", "resource_link"])
        hide = lambda text: re.sub(r"sess_\w+|run_\w+|\d+ ms", "…", text)
        self.assertEqual(hide(text_of(result)), hide(re.search("```\n(north.*?)```", demo, re.S).group(1)))
        with open(os.path.join(folder, "mcp-chart.png"), "rb") as file:
            self.assertEqual(base64.b64decode(result["content"][1]["data"])[:32], file.read(32))

    def test_a_figure_that_is_also_saved_is_shown_once(self):
        result = self.python("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('a.png')\nplt.show()")
        self.assertEqual(kinds_of(result), ["text", "image", "resource_link"])

    def test_long_output_can_be_read_to_its_end(self):
        result = self.python("print('x' * 200000, 'end')")
        text = text_of(result)
        self.assertLess(len(text), 110000)
        path = re.search(r"stdout goes on: read (\S+) with", text).group(1)
        rest = self.client.call("sandbox_read_artifact", session_id=session_of(result), path=path,
                                offset=200000 - 5)
        self.assertEqual(text_of(rest), "xxxxx end\n")
        text = text_of(self.python("print('y' * (5 << 20))"))
        self.assertIn("[stdout goes on and was cut: read ", text)

    def test_a_timeout(self):
        text = text_of(self.python("import time; time.sleep(60)", timeout=1))
        self.assertIn("timed out after 1 seconds", text)
        self.assertIn("[exit code -1, ", text)

    def test_refusals(self):
        self.assert_refused(self.python("pass", session_id="a b"), "invalid_session_id", "no id of a session")
        self.assert_refused(self.python("#" * 102401), "code_too_large", "102401")
        self.assert_refused(self.client.call("sandbox_run_python"), "invalid_request", "code")

    def test_one_call_at_a_time(self):
        session = session_of(self.python("pass"))
        first = self.client.begin("tools/call", {
            "name": "sandbox_run_python",
            "arguments": {"code": "import time; time.sleep(2)", "session_id": session}})
        self.assert_refused(self.python("pass", session_id=session), "session_busy", "busy")
        closed = self.client.call("sandbox_close_session", session_id=session)
        self.assert_refused(closed, "session_busy", "busy")
        self.assertIn("[exit code 0, ", text_of(self.client.wait(first)["result"]))


# A figure whose PNG has some megabytes.
NOISE = (
    "import numpy as np, matplotlib.pyplot as plt\n"
    "plt.figure(figsize=(12, 10), dpi=110)\n"
    "plt.imshow(np.random.default_rng(1).random((1500, 1500, 3)), interpolation='nearest')\n")


class Pictures(Pipes):
    environment = {"MSB_MCP_ANSWER_WITHIN": "110"}

    def assert_smaller(self, block):
        data = base64.b64decode(block["data"])
        self.assertEqual(block["mimeType"], "image/png")
        self.assertTrue(data.startswith(b"\x89PNG"))
        self.assertLess(len(data), 1 << 20)
        self.assertGreater(int.from_bytes(data[16:20], "big"), 200)

    def read(self, uri):
        contents = self.client.request("resources/read", {"uri": uri})["result"]["contents"]
        return base64.b64decode(contents[0]["blob"])

    def test_a_large_file_is_shown_smaller_and_linked(self):
        result = self.python(NOISE + "plt.savefig('noise.png')\nplt.close()")
        self.assertEqual(kinds_of(result), ["text", "image", "resource_link"])
        self.assert_smaller(result["content"][1])
        self.assertIn("[noise.png is shown smaller than it is]", text_of(result))
        self.assertGreater(len(self.read(result["content"][2]["uri"])), 1 << 20)
        read = self.client.call("sandbox_read_artifact", session_id=session_of(result), path="noise.png")
        self.assertEqual(kinds_of(read), ["text", "image", "resource_link"])
        self.assert_smaller(read["content"][1])

    def test_a_large_figure_is_kept_in_full(self):
        result = self.python(NOISE + "plt.show()")
        self.assertEqual(kinds_of(result), ["text", "image", "resource_link"])
        self.assert_smaller(result["content"][1])
        uri = result["content"][2]["uri"]
        self.assertRegex(uri, r"^sandbox://[\w-]+/pictures/run_\w+-1\.png$")
        self.assertIn(f"Figure in full: {uri.split('/', 3)[3]} (image/png, ", text_of(result))
        full = self.read(uri)
        self.assertTrue(full.startswith(b"\x89PNG"))
        self.assertGreater(len(full), 1 << 20)

    def test_in_a_sandbox_with_a_name(self):
        self.client.call("sandbox_start", sandbox="painter")
        result = self.client.call("sandbox_run_code", sandbox="painter", language="python", code=NOISE + "plt.show()")
        self.assertEqual(kinds_of(result), ["text", "image"])
        self.assert_smaller(result["content"][1])
        path, size = re.search(r"Figure in full: (\S+) \(image/png, (\d+) bytes\)", text_of(result)).groups()
        found = self.client.call("sandbox_run_command", sandbox="painter", command="stat", args=["-c", "%s", path])
        self.assertAlmostEqual(int(text_of(found).split()[0]), int(size), delta=3)

    def test_what_is_no_picture(self):
        """Nor one that claims to have billions of pixels; the session goes on."""
        for content in ("os.urandom(2 << 20)",
                        "b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 60000, 60000, 8, 6, 0, 0, 0))"
                        " + chunk(b'IDAT', zlib.compress(bytes(1 << 20), 0)) + chunk(b'IEND', b'')"):
            result = self.python(
                "import os, struct, zlib\nx = 7\n"
                "def chunk(name, data):\n"
                "    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))\n"
                f"n = open('wrong.png', 'wb').write({content})")
            self.assertEqual(kinds_of(result), ["text", "resource_link"])
            self.assertIn("[wrong.png is not shown: ", text_of(result))
            again = self.python("print(x)", session_id=session_of(result))
            self.assertTrue(text_of(again).startswith("7\n"))

    def test_many_large_ones_fit_into_an_answer(self):
        result = self.python(
            NOISE + "import shutil\nplt.savefig('0.png')\nplt.close()\n"
            "for i in range(1, 7):\n    shutil.copy('0.png', f'{i}.png')\n0")
        self.assertLess(len(json.dumps(result)), 4 << 20)
        self.assertEqual(kinds_of(result).count("resource_link"), 7)
        self.assertGreater(kinds_of(result).count("image"), 2)
        self.assertIn("[6.png is not shown: the answer is full]", text_of(result))

    def test_without_pillow(self):
        client = StdioClient("--tools", "sessions")
        client.initialize()
        result = client.call("execute_code", template="node",
                             code="require('fs').writeFileSync('a.png', Buffer.alloc(2 << 20))")
        self.assertEqual(kinds_of(result), ["text", "resource_link"])
        self.assertIn("which takes Python with Pillow", text_of(result))
        self.assertEqual(client.close(), 0)
        client.process.stdout.close()


class Files(Pipes):
    def upload(self, **arguments):
        return self.client.call("sandbox_upload_file", **arguments)

    def test_in_and_out(self):
        content = base64.b64encode(b"n\n1\n2\n").decode()
        uploaded = self.upload(filename="n.csv", content_base64=content)["structuredContent"]
        session = uploaded["session_id"]
        again = self.upload(filename="n.csv", content="other", session_id=session)
        self.assert_refused(again, "file_exists", "already")
        replaced = self.upload(filename="n.csv", content="n\n5\n", session_id=session, overwrite=True)
        self.assertEqual(replaced["structuredContent"], {"session_id": session, "path": "n.csv"})
        result = self.python("print(open('n.csv').read().split())", session_id=session)
        self.assertIn("['n', '5']", text_of(result))
        listed = self.client.call("sandbox_list_artifacts", session_id=session)["structuredContent"]
        self.assertEqual([(a["path"], a["size_bytes"]) for a in listed["artifacts"]], [("n.csv", 4)])
        read = self.client.call("sandbox_read_artifact", session_id=session, path="n.csv")
        self.assertEqual(text_of(read), "n\n5\n")

    def test_kinds_of_content(self):
        session = session_of(self.python(
            "open('long.txt', 'w').write('ä' * 40000)\nopen('x.bin', 'wb').write(b'\\0\\xff')\n"
            "open('big.bin', 'wb').write(bytes(3 << 20))\nopen('long.bin', 'wb').write(b'\\xff' * (4 << 20))\n"
            "open('huge.bin', 'wb').write(bytes(11 << 20))"))
        read = lambda path, **more: self.client.call(
            "sandbox_read_artifact", session_id=session, path=path, **more)
        first = text_of(read("long.txt"))
        offset = int(re.search(r'"offset": (\d+)', first).group(1))
        rest = text_of(read("long.txt", offset=offset))
        self.assertEqual(first.split("\n")[0] + rest, "ä" * 40000)
        blob = read("/mnt/data/x.bin")["content"][1]["resource"]
        self.assertEqual(base64.b64decode(blob["blob"]), b"\0\xff")
        self.assertTrue(read("big.bin")["isError"])
        parts = [read("big.bin", raw=True, offset=offset)["content"][1]["resource"]["blob"] for offset in (0, 2 << 20)]
        self.assertEqual(b"".join(map(base64.b64decode, parts)), bytes(3 << 20))
        uri = f"sandbox://{session}/"
        self.assertIn("parts", self.client.request("resources/read", {"uri": uri + "long.bin"})["error"]["message"])
        too_large = read("huge.bin")
        self.assert_refused(too_large, "artifact_too_large", "has 11534336 bytes")
        self.assertEqual(too_large["structuredContent"]["size_bytes"], 11 << 20)
        self.assertIsNone(too_large["structuredContent"]["download_url"])

    def test_refusals(self):
        session = session_of(self.python("import os; os.symlink('/etc/passwd', 'link')"))
        for name in ("../x", "a/b", "", "..", "a b"):
            self.assert_refused(self.upload(filename=name, content="x"), "invalid_filename", "name")
        self.assert_refused(self.upload(filename="x", content_base64="%%%"), "invalid_content", "base64")
        for path in ("../../etc/passwd", "/etc/passwd", "link", "nothing"):
            result = self.client.call("sandbox_read_artifact", session_id=session, path=path)
            self.assertTrue(result["isError"], path)
        missing = self.client.call("sandbox_list_artifacts", session_id="nobody")
        self.assert_refused(missing, "session_not_found", "nobody")
        closed = self.client.call("sandbox_close_session", session_id=session)
        self.assertEqual(closed["structuredContent"], {"status": "closed"})

    def pages(self, **arguments):
        """All pages of a list of artifacts."""
        pages, more = [], {}
        for _ in range(10):
            told = self.client.call("sandbox_list_artifacts", **arguments, **more)["structuredContent"]
            pages.append(told["artifacts"])
            if "next_cursor" not in told:
                return pages
            more = {"cursor": told["next_cursor"]}
        raise AssertionError("there is no end")

    def test_lists_have_folders_and_pages(self):
        result = self.python(
            "import os\nos.makedirs('a/b/c'); os.makedirs('.hidden')\n"
            "deep = '/'.join('abcdefghi'); os.makedirs(deep)\n"
            "for path in ('a/b/c/deep.txt', 'top.txt', '.hidden/x', deep + '/too-deep'): open(path, 'w').write('1')\n"
            "os.mkdir('many')\nfor i in range(250): open(f'many/{i:03}', 'w').write('1')\n")
        self.assertIn("[and 153 more: ", text_of(result))
        self.assertEqual(kinds_of(result).count("resource_link"), 100)
        session = session_of(result)
        pages = self.pages(session_id=session)
        self.assertEqual([len(page) for page in pages], [200, 52])
        paths = [artifact["path"] for page in pages for artifact in page]
        self.assertEqual(paths, ["a/b/c/deep.txt", *(f"many/{i:03}" for i in range(250)), "top.txt"])
        self.assertEqual(pages[0][0]["filename"], "deep.txt")
        self.assertEqual(pages[0][0]["uri"], f"sandbox://{session}/a/b/c/deep.txt")
        self.assertIsNone(pages[0][0]["download_url"])
        self.assertEqual(self.pages(session_id=session, path="/mnt/data"), pages)
        outside = self.client.call("sandbox_list_artifacts", session_id=session, path="/workspaces")
        self.assertTrue(outside["isError"])
        below = self.pages(session_id=session, path="/workspace/a/b")
        self.assertEqual([artifact["path"] for artifact in below[0]], 
                         ["a/b/" + "/".join("cdefghi") + "/too-deep", "a/b/c/deep.txt"])
        first = self.client.request("resources/list")["result"]
        rest = self.client.request("resources/list", {"cursor": first["nextCursor"]})["result"]
        listed = [resource["name"] for resource in first["resources"] + rest["resources"]]
        self.assertEqual(listed, paths)
        self.assertNotIn("nextCursor", rest)
        for nonsense in ("nobody", "nobody:", "nobody:x", ":", f"{session}:-1"):
            wrong = self.client.request("resources/list", {"cursor": nonsense})
            self.assertEqual(wrong["error"]["code"], -32602)

    def test_a_list_that_is_too_long_says_so(self):
        session = session_of(self.python(
            "import os\nos.mkdir('many')\nfor i in range(10050): os.close(os.open(f'many/{i}', os.O_CREAT))\n"
            "open('z', 'w').write('1')"))
        pages = self.client.call("sandbox_list_artifacts", session_id=session, cursor="9999")["structuredContent"]
        self.assertEqual([artifact["path"] for artifact in pages["artifacts"]], ["z"])
        self.assertIn("too many", pages["note"])

    def test_resources(self):
        sessions = [session_of(self.python("open('f.txt', 'w').write('1')")) for _ in range(2)]
        found, cursor = [], None
        for _ in range(5):
            page = self.client.request("resources/list", {"cursor": cursor} if cursor else {})["result"]
            found += [resource["uri"] for resource in page["resources"]]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        self.assertEqual(sorted(found), sorted(f"sandbox://{s}/f.txt" for s in sessions))
        # A session that ends between two pages is left out, and the list goes on.
        first, second, third = sorted([*sessions, session_of(self.python("open('f.txt', 'w').write('1')"))])
        page = self.client.request("resources/list")["result"]
        self.assertEqual([resource["uri"] for resource in page["resources"]], [f"sandbox://{first}/f.txt"])
        self.client.call("sandbox_close_session", session_id=second)
        page = self.client.request("resources/list", {"cursor": page["nextCursor"]})["result"]
        self.assertEqual([resource["uri"] for resource in page["resources"]], [f"sandbox://{third}/f.txt"])
        uri = f"sandbox://{first}/f.txt"
        self.assertEqual(self.client.request("resources/subscribe", {"uri": uri})["result"], {})
        self.python("open('f.txt', 'w').write('22')", session_id=uri.split("/")[2])
        told = [n["params"]["uri"] for n in self.client.notifications
                if n["method"] == "notifications/resources/updated"]
        self.assertEqual(told, [uri])
        gone = self.client.request("resources/read", {"uri": "sandbox://nobody/x"})
        self.assertEqual(gone["error"]["code"], -32002)


class Sandboxes(Pipes):
    def test_by_name(self):
        call = self.client.call
        self.assertIn("started", text_of(call("sandbox_start", sandbox="one")))
        call("sandbox_run_code", sandbox="one", code="y = 6", language="python")
        result = call("sandbox_run_code", sandbox="one", code="print(y * 7)", language="python")
        self.assertTrue(text_of(result).startswith("42\n"), result)
        failed = call("sandbox_run_command", sandbox="one", command="sh", args=["-c", "echo no >&2; exit 3"])
        self.assertNotIn("isError", failed)
        self.assertIn("[stderr]\nno\n[exit code 3, ", text_of(failed))
        metrics = call("sandbox_get_metrics", sandbox="one")["structuredContent"]["sandboxes"]
        self.assertEqual([box["name"] for box in metrics], ["one"])
        self.assertIn("stopped", text_of(call("sandbox_stop", sandbox="one")))
        missing = call("sandbox_run_command", sandbox="one", command="true")
        self.assertTrue(missing["isError"])
        self.assertIn("sandbox_start", text_of(missing))

    def test_wrong_arguments(self):
        self.assertTrue(self.client.call("sandbox_start", sandbox=5)["isError"])
        self.assertTrue(self.client.call("sandbox_run_command")["isError"])
        self.assertTrue(self.client.call("sandbox_start", sandbox="../x")["isError"])


class LongWork(Pipes):
    environment = {"MSB_MCP_ANSWER_WITHIN": "2"}

    def finish(self, tool, **arguments):
        """The text of the whole result, and what came before it."""
        result, unfinished = text_of(self.client.call(tool, **arguments)), []
        for _ in range(40):
            if "still running" not in result:
                return result, unfinished
            unfinished.append(result)
            handle = re.search(r'"continue": "(\w+)"', result).group(1)
            result = text_of(self.client.call("sandbox_run_command", **{"continue": handle}))
        raise AssertionError("it does not end")

    def is_running(self, sandbox, marker):
        result, _ = self.finish("sandbox_run_command", sandbox=sandbox, command="sh",
                                args=["-c", f"ps ax | grep -c '[s]leep {marker}'"])
        return not result.startswith("0")

    def test_a_handle_continues(self):
        code = "import time\nprint('begun', flush=True)\ntime.sleep(5)\nprint('done')"
        self.finish("sandbox_start", sandbox="s")
        for tool, arguments in (("sandbox_run_python", {}),
                                ("sandbox_run_code", {"sandbox": "s", "language": "python"})):
            result, unfinished = self.finish(tool, code=code, **arguments)
            self.assertTrue(any(early.startswith("begun\n[still running") for early in unfinished), unfinished)
            self.assertTrue(result.startswith("begun\ndone\n"), result)
            handle = re.search(r'"continue": "(\w+)"', unfinished[-1]).group(1)
            again = self.client.call("sandbox_run_command", **{"continue": handle})
            self.assertTrue(again["isError"])

    def test_progress_with_the_last_line(self):
        answer = self.client.request("tools/call", {
            "name": "sandbox_run_python", "_meta": {"progressToken": "t1"},
            "arguments": {"code": "import time\nfor i in range(8):\n print('step', i, flush=True)\n time.sleep(1)"}})
        self.assertIn("step 7", text_of(answer["result"]))
        told = [n["params"] for n in self.client.notifications if n["method"] == "notifications/progress"]
        self.assertTrue(told)
        for progress in told:
            self.assertEqual(progress["progressToken"], "t1")
            self.assertRegex(progress["message"], r"^(step \d|running for \d+ seconds)$")
        self.assertIn("step", told[-1]["message"])

    def test_cancelling_kills_the_tree(self):
        self.finish("sandbox_start", sandbox="c")
        running = self.client.begin("tools/call", {
            "name": "sandbox_run_command", "_meta": {"progressToken": 1},
            "arguments": {"sandbox": "c", "command": "sh", "args": ["-c", "setsid sleep 4711 & sleep 4712"]}})
        until(lambda: self.is_running("c", 4711) and self.is_running("c", 4712))
        self.client.send({"method": "notifications/cancelled", "params": {"requestId": running}})
        until(lambda: not self.is_running("c", 4711) and not self.is_running("c", 4712))
        self.assertNotIn(running, self.client.answers)


class SessionSet(Pipes):
    arguments = ("--tools", "sessions")

    def test_flat_or_wrapped(self):
        first = text_of(self.client.call("execute_code", code="x = 1\nprint('hi')"))
        session = re.search(r"\[Session: (\S+)\] \[Time: \d+ms\] \[Template: python\] \[Success: True\]", first).group(1)
        again = self.client.call("execute_code", params={"code": "print(x)", "session_id": session})
        self.assertTrue(text_of(again).startswith("1\n"))
        command = text_of(self.client.call("execute_command", params={"command": "exit 4", "session_id": session}))
        self.assertIn("[Success: False] [Command: exit 4] [Exit Code: 4]", command)
        described = text_of(self.client.call("get_sessions"))
        self.assertIn(f"Session ID: {session}\nTemplate: python\nFlavor: small\n", described)
        self.assertIn("stopped", text_of(self.client.call("stop_session", session_id=session)))
        self.assertIn("not found", text_of(self.client.call("stop_session", params={"session_id": session})))
        self.assertEqual(text_of(self.client.call("get_sessions")), "No active sessions found")
        self.assertEqual(text_of(self.client.call("get_volume_mappings")), "No volume mappings configured")

    def test_refusals(self):
        for arguments in ({"code": "1", "template": "cobol"}, {"code": "1", "flavor": "huge"},
                          {"code": "1", "timeout": 301}, {}):
            self.assertTrue(self.client.call("execute_code", **arguments)["isError"], arguments)
        self.assertTrue(self.client.call("execute_command", command="true", timeout=1801)["isError"])


class Processes(unittest.TestCase):
    def test_two_at_once_are_independent(self):
        clients = [StdioClient() for _ in range(2)]
        for client in clients:
            client.initialize()
        results = [client.call("sandbox_run_python", code="print(1)", session_id="same") for client in clients]
        for result in results:
            self.assertTrue(text_of(result).startswith("1\n"))
        self.assertEqual(len(sandboxes()), 2)
        clients[0].close()
        until(lambda: len(sandboxes()) == 1)
        self.assertTrue(text_of(clients[1].call("sandbox_run_python", code="print(2)", session_id="same")).startswith("2\n"))
        clients[1].close()
        until(lambda: sandboxes() == [])
        for client in clients:
            client.process.stdout.close()

    def test_killed_it_leaves_nothing(self):
        client = StdioClient()
        client.initialize()
        client.call("sandbox_run_python", code="pass")
        client.call("sandbox_start", sandbox="left")
        client.process.kill()
        client.process.wait(timeout=10)
        client.process.stdin.close()
        client.process.stdout.close()
        until(lambda: sandboxes() == [])


class HttpTest(SessionTest):
    def post(self, message, path="/mcp", **headers):
        return self.server.fetch(
            "POST", path, {"jsonrpc": "2.0", **message},
            Accept="application/json, text/event-stream", **headers)

    def begin(self, path="/mcp"):
        """The id of a conversation."""
        answer = self.post({"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}, path)
        self.assertEqual(answer.status, 200)
        return answer.headers["Mcp-Session-Id"]

    def call(self, conversation, tool, arguments, path="/mcp"):
        answer = self.post({"id": 2, "method": "tools/call",
                            "params": {"name": tool, "arguments": arguments}},
                           path, Mcp_Session_Id=conversation)
        self.assertEqual(answer.status, 200)
        return answer.json()["result"]


class Http(HttpTest):
    def test_addresses_for_downloads(self):
        conversation = self.begin()
        result = self.call(conversation, "sandbox_run_python", {
            "code": "import os\nos.mkdir('a b')\nopen('a b/ü.bin', 'wb').write(bytes(range(256)))"})
        url = re.search(r" download: (http://\S+)", text_of(result)).group(1)
        self.assertTrue(url.startswith(self.server.url + "/files/"), url)
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.read(), bytes(range(256)))
        listed = self.call(conversation, "sandbox_list_artifacts", {"session_id": session_of(result)})
        artifact, = listed["structuredContent"]["artifacts"]
        self.assertEqual((artifact["path"], artifact["download_url"]), ("a b/ü.bin", url))

    def test_conversations_and_sessions_survive_a_restart(self):
        conversation = self.begin()
        session = session_of(self.call(conversation, "sandbox_run_python", {"code": "x = 7"}))
        self.server.restart()
        again = self.call(conversation, "sandbox_run_python",
                          {"code": "print(x)", "session_id": session})
        self.assertTrue(text_of(again).startswith("7\n"))

    def test_the_second_set(self):
        conversation = self.begin("/mcp/sessions")
        result = self.call(conversation, "execute_code", {"params": {"code": "print(3)"}},
                           "/mcp/sessions")
        self.assertTrue(text_of(result).startswith("3\n"))

    def test_a_modern_client_needs_no_conversation(self):
        answer = self.post({"id": 1, "method": "tools/call", "params": {
            "name": "sandbox_run_python", "arguments": {"code": "print(4)"},
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}},
            MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call", Mcp_Name="sandbox_run_python")
        self.assertTrue(text_of(answer.json()["result"]).startswith("4\n"))

    def test_a_modern_client_that_leaves_has_cancelled(self):
        with socket.create_connection(self.server.url.split("//")[1].split(":"), timeout=30) as client:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "sandbox_run_python",
                "arguments": {"code": "import time; time.sleep(600)", "session_id": "modern"},
                "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                          "io.modelcontextprotocol/clientCapabilities": {}}}})
            client.sendall((
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
                "Mcp-Method: tools/call\r\nMcp-Name: sandbox_run_python\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            status = lambda: [s["status"] for s in self.server.rpc("session.list")["sessions"]]
            until(lambda: status() == ["processing"])
        until(lambda: status() in (["ready"], ["error"]))

    def modern(self, method, **params):
        """A modern request: its headers and its body."""
        subject = params.get("name") or params.get("uri")
        headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
        if subject:
            headers["Mcp_Name"] = subject
        return headers, {"id": 1, "method": method, "params": {**params, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}}

    def test_a_modern_client_listens(self):
        conversation = self.begin()
        session = session_of(self.call(conversation, "sandbox_run_python", {"code": "pass"}))
        uri = f"sandbox://{session}/seen.txt"
        headers, body = self.modern("subscriptions/listen", notifications={
            "resourceSubscriptions": [uri], "resourcesListChanged": True})
        request = urllib.request.Request(
            self.server.url + "/mcp", json.dumps({"jsonrpc": "2.0", **body}).encode(), {
                "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                **{name.replace("_", "-"): value for name, value in headers.items()}})
        with urllib.request.urlopen(request, timeout=30) as stream:
            told = (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
            self.assertEqual(next(told)["method"], "notifications/subscriptions/acknowledged")
            for name in ("other.txt", "seen.txt"):
                self.call(conversation, "sandbox_run_python",
                          {"code": f"n = open('{name}', 'w').write('1')", "session_id": session})
            methods = [next(told) for _ in range(3)]
        self.assertEqual([message["method"].removeprefix("notifications/resources/") for message in methods],
                         ["list_changed", "list_changed", "updated"])
        self.assertEqual(methods[2]["params"]["uri"], uri)

    def test_cancelling_over_http(self):
        conversation = self.begin()
        session = session_of(self.call(conversation, "sandbox_run_python", {"code": "pass"}))
        status = lambda: self.server.rpc("session.get", session_id=session)["status"]
        answers = []
        running = threading.Thread(target=lambda: answers.append(self.post({
            "id": "long", "method": "tools/call", "params": {"name": "sandbox_run_python", "arguments": {
                "code": "import time; time.sleep(600)", "session_id": session}}},
            Mcp_Session_Id=conversation)))
        running.start()
        until(lambda: status() == "processing")
        told = self.post({"method": "notifications/cancelled", "params": {"requestId": "long"}},
                         Mcp_Session_Id=conversation)
        self.assertEqual(told.status, 202)
        running.join(timeout=30)
        self.assertEqual(answers[0].status, 202)
        until(lambda: status() in ("ready", "error"))

    def test_other_hosts_and_origins_are_refused(self):
        message = {"id": 1, "method": "tools/list"}
        for headers in ({"Host": "evil.example.com"}, {"Origin": "http://evil.example.com"}):
            for method in ("POST", "GET", "DELETE"):
                answer = self.server.fetch(method, "/mcp", {"jsonrpc": "2.0", **message} if method == "POST" else None,
                                           Accept="application/json, text/event-stream", **headers)
                self.assertEqual(answer.status, 403, (method, headers))

    def test_a_file_of_the_largest_size(self):
        conversation = self.begin()
        content = base64.b64encode(bytes(50 << 20)).decode()
        uploaded = self.call(conversation, "sandbox_upload_file", {"filename": "b", "content_base64": content})
        session = uploaded["structuredContent"]["session_id"]
        looked = self.call(conversation, "sandbox_run_python",
                           {"code": "import os; print(os.path.getsize('b'))", "session_id": session})
        self.assertTrue(text_of(looked).startswith(f"{50 << 20}\n"))
        refused = self.call(conversation, "sandbox_upload_file", {
            "filename": "c", "content_base64": base64.b64encode(bytes((50 << 20) + 1)).decode()})
        self.assertEqual(refused["structuredContent"]["error"], "upload_too_large")

    def test_ending_while_a_call_runs(self):
        conversation = self.begin()
        session = session_of(self.call(conversation, "sandbox_run_python", {"code": "pass"}))
        answers = []
        running = threading.Thread(target=lambda: answers.append(self.call(
            conversation, "sandbox_run_python",
            {"code": "import time; time.sleep(600)", "session_id": session})))
        running.start()
        until(lambda: self.server.rpc("session.get", session_id=session)["status"] == "processing")
        self.server.restart(signal.SIGTERM)
        running.join(timeout=30)
        self.assertTrue(answers[0]["isError"])
        self.assertIn("run it again", text_of(answers[0]))


class Keys(HttpTest):
    arguments = ("--key", "0123456789abcdef0123456789abcdef")

    def tearDown(self):
        self.server.key = self.key("*")
        super().tearDown()
        self.server.key = None

    def key(self, namespace):
        made = subprocess.run(
            [MSB, "server", "keygen", "--namespace", namespace, "--key", self.arguments[1]],
            capture_output=True, check=True, text=True, timeout=30)
        return made.stdout.strip()

    def test_without_a_key(self):
        answer = self.post({"id": 1, "method": "tools/list"})
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        self.server.key = "msb_wrong"
        answer = self.post({"id": 1, "method": "tools/list"})
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer.headers["WWW-Authenticate"], 'Bearer error="invalid_token"')

    def test_an_address_is_signed(self):
        self.server.key = self.key("team-a")
        conversation = self.begin()
        session = session_of(self.call(conversation, "sandbox_run_python", {
            "code": "open('b.bin', 'wb').write(bytes(11 << 20))"}))
        refused = self.call(conversation, "sandbox_read_artifact", {"session_id": session, "path": "b.bin"})
        url = refused["structuredContent"]["download_url"]
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.read(), bytes(11 << 20))
        for wrong in (url.split("?")[0], url.replace("signature=", "signature=0"), url.replace("b.bin", "c.bin")):
            with self.assertRaises(urllib.error.HTTPError) as told:
                urllib.request.urlopen(wrong, timeout=30)
            self.assertEqual(told.exception.code, 401)
            told.exception.close()

    def test_a_key_is_good_for_its_namespace(self):
        self.server.key = self.key("team-a")
        theirs = self.begin()
        session = session_of(self.call(theirs, "sandbox_run_python", {"code": "x = 1"}))
        denied = self.call(theirs, "sandbox_start", {"sandbox": "x", "namespace": "team-b"})
        self.assertTrue(denied["isError"])
        self.server.key = self.key("team-b")
        ours = self.begin()
        missing = self.call(ours, "sandbox_list_artifacts", {"session_id": session})
        self.assertEqual(missing["structuredContent"]["error"], "session_not_found")
        stolen = self.post({"id": 3, "method": "tools/list"}, Mcp_Session_Id=theirs)
        self.assertEqual(stolen.status, 404)
