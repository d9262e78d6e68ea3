package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// spelledOut are the ways in which clients of other services write a token into an
// Authorization header, with the token in the place of TOKEN. Between brackets it is
// encoded as the credentials of Basic are.
var spelledOut = []string{
	"Bearer TOKEN", "bearer  TOKEN", "BEARER\tTOKEN", "TOKEN", "Token TOKEN", "token TOKEN", "Digest TOKEN",
	"PRIVATE-TOKEN TOKEN", "ApiKey TOKEN",
	`Token token="TOKEN"`, `Digest username="TOKEN", realm="x"`, "Bearer token=TOKEN", "Bearer:TOKEN",
	"Bearer TOKEN, Bearer x", "AWS4 a/TOKEN/b",
	"Basic [alice:TOKEN]", "Basic [TOKEN:x-oauth-basic]", "Basic [TOKEN:]", "Basic [:TOKEN]", "Basic [TOKEN]",
	"basic\t[oauth2:TOKEN]", "[x:TOKEN]", "Token [x:TOKEN]",
}

// spelled writes a token in one of these ways.
func spelled(way, token string) string {
	way = strings.ReplaceAll(way, "TOKEN", token)
	before, rest, encoded := strings.Cut(way, "[")
	if !encoded {
		return way
	}
	return before + base64.StdEncoding.EncodeToString([]byte(strings.TrimSuffix(rest, "]")))
}

const ownTokensConfig = baseConfig + `
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
  - {match: /kept/, name: kept, upstream: app, auth: [none], forward_credentials: true}
`

// A token of the gateway does not reach an upstream in the Authorization header, however
// it is spelled and whatever the route accepts. What belongs to the application does.
func TestOwnTokensStayHere(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownTokensConfig)
	alice := r.login(aliceIn)
	tokens := map[string]string{"API token": r.client.NewToken(alice.cookie, "").Token, "access token": alice.access,
		"refresh token": alice.refresh,
		// Of OAuth clients. Each has a mark and a checksum, and was never valid here.
		"client's code":          "agc_INX5GHT55QAWDGP6JJAZXW6KPVIS2FEU6RQ37FXZYMYJDZ5FUZDEQXHR36MZMXAIMR6D",
		"client's refresh token": "agr_CUCGUICU5WRNBCWZLQLP4ALCS5V75WUUJ2G5LLYQW2EY4A6DJRWSAICGXZ5V6HVPZVH2",
		"device code":            "agd_VQ4TCL3CIE7VDCNUCK3GPOZXWXH465G3TT5NYF5ART76QGOQR3ASI27QT6JSOPXWULMV"}
	for kind, token := range tokens {
		for _, way := range spelledOut {
			for _, target := range []string{"/public/", "/session/", "/any/", "/shared/"} {
				before := r.upstream.Reached()
				r.do("GET", target, "", alice.cookie, "Authorization: "+spelled(way, token))
				if r.upstream.Reached() == before {
					continue // refused
				}
				if got := r.upstream.Last().Header["Authorization"]; got != nil {
					t.Errorf("%s: the upstream gets the %s as %.60q", target, kind, way)
				}
			}
		}
		r.want(200, "GET", "/public/", "", "Authorization: Token "+token)
		r.want(200, "GET", "/session/", "", alice.cookie, "Authorization: Token "+token)
		upgrade := append([]string{"Connection: Upgrade", "Upgrade: websocket", "Authorization: Token " + token},
			ownrig.Handshake...)
		r.want(200, "GET", "/public/", "", upgrade...) // the upstream does not switch
		if got := r.upstream.Last().Header; got["Authorization"] != nil || got.Get("Upgrade") == "" {
			t.Errorf("with an upgrade, the upstream gets %v", got)
		}
		r.want(200, "GET", "/kept/", "", "Authorization: Bearer "+token)
		if got := r.upstream.Last().Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("with forward_credentials, the upstream gets %.40q", got)
		}
	}
	for _, others := range []string{
		"Bearer glsa_0123456789abcdef", "Basic " + base64.StdEncoding.EncodeToString([]byte("app:app")),
		"Negotiate " + strings.Repeat("YII", 900),
		"Token agt_", "Bearer " + tokens["API token"][:60], "Bearer a.b.c", "x", "",
	} {
		q := request("GET", "/public/", "")
		q.Header["Authorization"] = []string{others}
		r.wantOf(http.StatusOK, q)
		if got := r.upstream.Last().Header["Authorization"]; len(got) != 1 || got[0] != others {
			t.Errorf("%.40q of the application reaches it as %q", others, got)
		}
	}
}
