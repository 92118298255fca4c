"""A database of one number: GET adds one to it and tells it."""
from http.server import BaseHTTPRequestHandler, HTTPServer


class Counter(BaseHTTPRequestHandler):
    count = 0

    def do_GET(self):
        Counter.count += 1
        body = b"%d" % Counter.count
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("", 5432), Counter).serve_forever()
