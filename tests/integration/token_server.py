"""Gives tokens for a registry: token_server.py KEY CERTIFICATE SERVICE, prints its address first.

Everybody may pull what is below public/; the rest needs robot and his password.
"""
import base64
import http.server
import json
import subprocess
import sys
import time
import urllib.parse

KEY, CERTIFICATE, SERVICE = sys.argv[1:]
ROBOT = 'Basic ' + base64.b64encode(b'robot:secret').decode()


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def make_token(user, scope):
    kind, _, rest = scope.partition(':')
    name, _, actions = rest.rpartition(':')
    allowed = user or (actions == 'pull' and name.startswith('public/'))
    with open(CERTIFICATE, encoding='ascii') as file:
        der = ''.join(line.strip() for line in file if not line.startswith('-'))
    now = int(time.time())
    claims = {'iss': 'tests', 'sub': user, 'aud': SERVICE, 'exp': now + 300, 'nbf': now - 10, 'iat': now, 'jti': str(now),
              'access': [{'type': kind, 'name': name, 'actions': actions.split(',')}] if scope and allowed else []}
    head = {'typ': 'JWT', 'alg': 'RS256', 'x5c': [der]}
    signed = encode(json.dumps(head).encode()) + '.' + encode(json.dumps(claims).encode())
    signature = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', KEY], input=signed.encode(), stdout=subprocess.PIPE,
                               check=True).stdout
    return signed + '.' + encode(signature)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        given = self.headers.get('Authorization')
        if query.get('service') != [SERVICE] or given not in (None, ROBOT):
            self.send_error(401)
            return
        answer = json.dumps({'token': make_token('robot' if given else '', query.get('scope', [''])[0])}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(f'127.0.0.1:{server.server_address[1]}', flush=True)
server.serve_forever()
