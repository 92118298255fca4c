"""
Small packages of Python and Node, and an index for them: package_mirror.py FOLDER writes them there;
with a port file as second argument it also serves them on a free port of the loopback, which it
writes to that file.
"""
import hashlib
import http.server
import io
import json
import pathlib
import sys
import tarfile
import zipfile

PACKAGES = {"msbprobe": "1.2", "msbother": "0.1"}


def write_wheel(folder, name, version):
    info = "%s-%s.dist-info" % (name, version)
    with zipfile.ZipFile(folder / ("%s-%s-py3-none-any.whl" % (name, version)), "w") as wheel:
        wheel.writestr("%s/__init__.py" % name, "__version__ = %r\n" % version)
        wheel.writestr(info + "/METADATA",
                       "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: by hand\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "/RECORD", "")


def write_tarball(folder, name, version):
    files = {"package.json": json.dumps({"name": name, "version": version, "main": "index.js"}),
             "index.js": "exports.version = %r;\n" % version}
    with tarfile.open(folder / ("%s-%s.tgz" % (name, version)), "w:gz") as tarball:
        for path, text in files.items():
            entry = tarfile.TarInfo("package/" + path)
            entry.size = len(text)
            tarball.addfile(entry, io.BytesIO(text.encode()))


class Index(http.server.BaseHTTPRequestHandler):
    """/simple/NAME/ is pip's index, /NAME npm's, everything else a file."""

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts[0] == "simple" and parts[-1] in PACKAGES:
            self.answer("text/html", self.links(parts[-1]).encode())
        elif parts[0] in PACKAGES:
            self.answer("application/json", json.dumps(self.document(parts[0])).encode())
        elif parts[0] == "files" and (self.server.folder / parts[-1]).is_file():
            self.answer("application/octet-stream", (self.server.folder / parts[-1]).read_bytes())
        else:
            self.send_error(404)

    def links(self, name):
        file = "%s-%s-py3-none-any.whl" % (name, PACKAGES[name])
        return '<!DOCTYPE html><html><body><a href="/files/%s">%s</a></body></html>' % (file, file)

    def document(self, name):
        version = PACKAGES[name]
        file = "%s-%s.tgz" % (name, version)
        digest = hashlib.sha1((self.server.folder / file).read_bytes()).hexdigest()
        url = "http://%s/files/%s" % (self.headers["Host"], file)
        return {"name": name, "dist-tags": {"latest": version},
                "versions": {version: {"name": name, "version": version, "main": "index.js",
                                       "dist": {"tarball": url, "shasum": digest}}}}

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, version in PACKAGES.items():
        write_wheel(folder, name, version)
        write_tarball(folder, name, version)
    if len(sys.argv) > 2:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        server.folder = folder
        pathlib.Path(sys.argv[2]).write_text(str(server.server_port))
        server.serve_forever()


main()
