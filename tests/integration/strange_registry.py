"""A registry that misbehaves: strange_registry.py LAYOUTS LOG, prints its address first.

Serves the layouts below LAYOUTS as BEHAVIOUR/NAME:latest. A second server on another port, which is
where some behaviours redirect to, belongs to it. Every request is a line of JSON in LOG.
"""
import base64
import http.server
import json
import os
import sys
import threading

LAYOUTS, LOG = sys.argv[1:]
ROBOT = 'Basic ' + base64.b64encode(b'robot:secret').decode()
LARGE = 8 << 20  # smaller blobs are sent as they should be
MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
asked = {}  # how often for each path
lock = threading.Lock()


def start_of(wanted):
    return int(wanted.removeprefix('bytes=').rstrip('-'))


def read_blob(name, digest):
    with open(f'{LAYOUTS}/{name}/blobs/sha256/{digest.removeprefix("sha256:")}', 'rb') as file:
        return file.read()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def note(self, server):
        with lock, open(LOG, 'a', encoding='utf-8') as file:
            asked[self.path] = asked.get(self.path, 0) + 1
            file.write(json.dumps({'server': server, 'path': self.path, **{
                name.lower(): value for name, value in self.headers.items()}}) + '\n')

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for name, values in headers.items():
            for value in values if isinstance(values, list) else [values]:
                self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_part(self, body):
        """The first half, and then silence or an end."""
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2])
        self.close_connection = True

    def send_ranged(self, body):
        wanted = self.headers.get('Range')
        if not wanted:
            self.answer(200, body)
            return
        start = start_of(wanted)
        self.answer(206, body[start:], Content_Range=f'bytes {start}-{len(body) - 1}/{len(body)}')


class Other(Handler):
    """Where blobs are redirected to."""

    def do_GET(self):
        self.note('other')
        if self.path.startswith('/asks/'):
            self.answer(401, WWW_Authenticate=f'Bearer realm="http://localhost:{other.server_address[1]}/token"')
        elif self.path == '/token':
            self.answer(200, b'{"token": "stolen"}')
        else:
            _, _, name, digest = self.path.split('/')
            self.send_ranged(read_blob(name, digest))


class Registry(Handler):
    def do_GET(self):
        self.note('registry')
        if self.path == '/v2/':
            self.answer(200)
            return
        _, _, behaviour, name, kind, version = self.path.split('/')
        special = getattr(self, f'{kind}_{behaviour}'.replace('-', '_'), None)
        if special and special(name, version) is not True:
            return
        if kind == 'blobs':
            self.send_ranged(read_blob(name, version))
            return
        if version == 'latest':
            with open(f'{LAYOUTS}/{name}/index.json', encoding='utf-8') as file:
                version = json.load(file)['manifests'][0]['digest']
        self.answer(200, read_blob(name, version), Content_Type=MANIFEST_TYPE)

    # True: go on as usual.

    def wants_robot(self, *challenges):
        if self.headers.get('Authorization') == ROBOT:
            return True
        return self.answer(401, WWW_Authenticate=list(challenges))

    def manifests_redirects(self, *_):
        return self.wants_robot('Basic realm="tests"')

    def blobs_redirects(self, name, digest):
        if self.wants_robot('Basic realm="tests"'):
            self.answer(307, Location=f'http://localhost:{other.server_address[1]}/blobs/{name}/{digest}')

    manifests_redirects_to_asker = manifests_redirects

    def blobs_redirects_to_asker(self, name, digest):
        if self.wants_robot('Basic realm="tests"'):
            self.answer(307, Location=f'http://localhost:{other.server_address[1]}/asks/{name}/{digest}')

    def manifests_negotiates(self, *_):
        return self.wants_robot('Negotiate', 'Basic realm="tests"')

    def blobs_ignores_range(self, name, digest):
        body = read_blob(name, digest)
        if len(body) < LARGE:
            return True
        return self.send_part(body) if asked[self.path] == 1 else self.answer(200, body)

    def blobs_wrong_range(self, name, digest):
        body = read_blob(name, digest)
        if len(body) < LARGE or (asked[self.path] > 1 and 'Range' not in self.headers):
            return True
        if asked[self.path] == 1:
            return self.send_part(body)
        start = start_of(self.headers['Range'])
        return self.answer(206, body[:len(body) - start], Content_Range=f'bytes {start}-{len(body) - 1}/{len(body)}')

    def blobs_stalls(self, name, digest):
        """Half of it until the file LOG.go is there."""
        body = read_blob(name, digest)
        if len(body) < LARGE or os.path.exists(LOG + '.go'):
            return True
        self.send_part(body)
        self.wfile.flush()
        self.connection.settimeout(60)
        return self.connection.recv(1) and None

    def blobs_tired(self, *_):
        return True if asked[self.path] > 2 else self.answer(503)

    def blobs_too_much(self, name, digest):
        return self.answer(200, read_blob(name, digest) + b'and more')

    def manifests_busy(self, *_):
        return self.answer(429)

    def manifests_endless(self, *_):
        return self.answer(200, b'{"x": "' + b'x' * (32 << 20) + b'"}')

    def manifests_nested(self, *_):
        return self.answer(200, b'{"x": ' + b'[' * 1000000)

    def manifests_no_json(self, *_):
        return self.answer(200, b'<html>please log in</html>')

    def manifests_other(self, name, version):
        if version == 'latest':
            return True
        return self.answer(200, b'{"schemaVersion": 2}')

    def manifests_loops(self, *_):
        return self.answer(307, Location=self.path)

    def manifests_leaves_http(self, *_):
        return self.answer(307, Location='file:///etc/passwd')

    def manifests_asks_forever(self, *_):
        return self.answer(401, WWW_Authenticate=f'Bearer realm="http://localhost:{other.server_address[1]}/token"')


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Clients leave whenever they want."""


other = Server(('127.0.0.1', 0), Other)
threading.Thread(target=other.serve_forever, daemon=True).start()
registry = Server(('127.0.0.1', 0), Registry)
print(f'127.0.0.1:{registry.server_address[1]}', flush=True)
registry.serve_forever()
