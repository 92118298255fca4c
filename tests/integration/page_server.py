"""Serves a folder on a free port, which it prints, also to hundreds who come at once."""
import functools
import http.server
import sys


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512  # with the usual 5 a busy host turns connections away


http.server.test(functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1]),
                 Server, port=0, bind="127.0.0.1")
