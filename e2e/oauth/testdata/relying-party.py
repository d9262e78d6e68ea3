"""Authlib as a relying party. It knows the issuer, and finds all else by discovery."""

import http.server
import sys
import urllib.parse

from authlib.common.security import generate_token
from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OAuthError, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session

base, port, secret = sys.argv[1:]
redirect_uri = f"http://127.0.0.1:{port}/callback"


class App(OAuth2Mixin, OpenIDMixin, BaseApp):
    client_cls = OAuth2Session


class Callback(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.arrived = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def visit(address):
    """Has the user open an address, and returns the parameters with which the browser comes back."""
    with http.server.HTTPServer(("127.0.0.1", int(port)), Callback) as server:
        print("open", address, flush=True)
        server.handle_request()
        return server.arrived


def refused(call, code):
    try:
        call()
    except OAuthError as error:
        assert error.error == code, error.error
    else:
        raise AssertionError(f"expected {code}")


app = App(
    None, "gate", client_id="shop", client_secret=secret, server_metadata_url=f"{base}/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile email groups offline_access", "code_challenge_method": "S256"},
)
begun = app.create_authorization_url(redirect_uri, nonce=generate_token())
arrived = visit(begun["url"])
assert arrived["state"] == begun["state"] and arrived["iss"] == base, arrived
token = app.fetch_access_token(redirect_uri=redirect_uri, code=arrived["code"], code_verifier=begun["code_verifier"])

# The signature by the published keys, and iss, aud, exp, nonce and at_hash.
claims = app.parse_id_token(token, nonce=begun["nonce"])
told = app.userinfo(token=token)
for got in claims, told:
    assert got["sub"] == got["preferred_username"] == "alice" and got["email"] == "alice@example.org", got
    assert got["email_verified"] is True and got["groups"] == ["user", "admin"], got
assert app.get(f"{base}/api/authlib", token=token).status_code == 200

metadata = app.load_server_metadata()
with OAuth2Session("shop", secret, token=token, token_endpoint=metadata["token_endpoint"]) as session:
    renewed = session.refresh_token(metadata["token_endpoint"])
    assert renewed["access_token"] != token["access_token"]
    assert app.parse_id_token(renewed, nonce=None)["sub"] == "alice"
    assert session.get(f"{base}/api/authlib").status_code == 200
    answer = session.introspect_token(metadata["introspection_endpoint"], renewed["access_token"], "access_token")
    assert answer.json()["active"] is True, answer.text
    assert session.revoke_token(metadata["revocation_endpoint"], renewed["refresh_token"], "refresh_token").status_code == 200
    refused(lambda: session.refresh_token(metadata["token_endpoint"], renewed["refresh_token"]), "invalid_grant")
    assert session.get(f"{base}/api/authlib").status_code == 401

with OAuth2Session("shop", secret) as machine:
    machine.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
    assert machine.get(f"{base}/api/machine").status_code == 200

# The user signs out, and comes back.
leaving = app.create_logout_url(post_logout_redirect_uri=redirect_uri, id_token_hint=token["id_token"], state="bye")
assert visit(leaving["url"]) == {"state": "bye"}
