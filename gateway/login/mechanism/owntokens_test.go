package mechanism_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"authgate/internal/test/rig"
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

// A token of the gateway is known in the Authorization header, however it is spelled, so that it
// reaches no upstream. What belongs to the application is none.
func TestOwnTokensAreKnown(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	own := r.Options.Federation.Bearers
	alice := r.Login(rig.Alice)
	tokens := map[string]string{"API token": r.NewToken(alice.Cookie, "").Token, "access token": alice.Access,
		"refresh token": alice.Refresh,
		// Of OAuth clients. Each has a mark and a checksum, and was never valid here.
		"client's code":          "agc_INX5GHT55QAWDGP6JJAZXW6KPVIS2FEU6RQ37FXZYMYJDZ5FUZDEQXHR36MZMXAIMR6D",
		"client's refresh token": "agr_CUCGUICU5WRNBCWZLQLP4ALCS5V75WUUJ2G5LLYQW2EY4A6DJRWSAICGXZ5V6HVPZVH2",
		"device code":            "agd_VQ4TCL3CIE7VDCNUCK3GPOZXWXH465G3TT5NYF5ART76QGOQR3ASI27QT6JSOPXWULMV"}
	for kind, token := range tokens {
		for _, way := range append(spelledOut, "Token TOKEN") {
			if !own.ContainsOwn(spelled(way, token)) {
				t.Errorf("the %s passes as %.60q", kind, way)
			}
		}
	}
	for _, others := range []string{
		"Bearer glsa_0123456789abcdef", "Basic " + base64.StdEncoding.EncodeToString([]byte("app:app")),
		"Negotiate " + strings.Repeat("YII", 900),
		"Token agt_", "Bearer " + tokens["API token"][:60], "Bearer a.b.c", "x", "",
	} {
		if own.ContainsOwn(others) {
			t.Errorf("%.40q of the application is taken for the gateway's", others)
		}
	}
}
