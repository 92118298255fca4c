"""A page that counts its visitors in the database."""
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import urlopen


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        with urlopen(os.environ["DATABASE"]) as answer:
            body = b"visitor %s\n" % answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("", 8000), Page).serve_forever()
