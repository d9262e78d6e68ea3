"""requests-oauthlib as a client that names no scope. It raises if it finds that its scopes have changed."""

import http.server
import sys

from requests_oauthlib import OAuth2Session

base, port, secret = sys.argv[1:]


class Callback(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.arrived = self.path
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


with OAuth2Session("shop", redirect_uri=f"http://127.0.0.1:{port}/callback", pkce="S256") as session:
    metadata = session.request("GET", f"{base}/.well-known/oauth-authorization-server", withhold_token=True).json()
    address, state = session.authorization_url(metadata["authorization_endpoint"])
    assert "scope=" not in address, address
    with http.server.HTTPServer(("127.0.0.1", int(port)), Callback) as server:
        print("open", address, flush=True)
        server.handle_request()
    endpoint = metadata["token_endpoint"]
    # The library wants https, and redirect URIs on this machine have http.
    arrived = f"https://127.0.0.1:{port}{server.arrived}"
    token = session.fetch_token(endpoint, authorization_response=arrived, client_secret=secret)
    assert sorted(token["scope"]) == ["manage", "read"], token
    assert session.get(f"{base}/api/no-scope").status_code == 200

    renewed = session.refresh_token(endpoint, auth=("shop", secret))
    assert renewed["access_token"] != token["access_token"]
    assert sorted(renewed["scope"]) == ["manage", "read"], renewed
    assert session.get(f"{base}/api/no-scope").status_code == 200
