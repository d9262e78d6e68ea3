package login

import (
	"encoding/json"
	"strings"
	"testing"

	"authgate/gateway/auth"
)

func FuzzAccessTokenChangedByte(f *testing.F)      { fuzzChangedByte(f, "HS256") }
func FuzzAccessTokenChangedByteRS256(f *testing.F) { fuzzChangedByte(f, "RS256") }

// fuzzChangedByte changes one byte of a token. It must not be accepted.
func fuzzChangedByte(f *testing.F, algorithm string) {
	r := newRig(f, func(r *rig) { r.keys = testKeys(f, algorithm) })
	s := r.signIn(f, "alice")
	for _, at := range []uint16{0, 10, 36, 37, 100, 300, 400, uint16(len(s.access) - 2), uint16(len(s.access) - 1)} {
		for _, with := range []byte{'A', 'g', '.', '=', '\r', '\n', '-', '_', 0, 0xff} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(s.access)
		changed[int(at)%len(changed)] = with
		if string(changed) == s.access {
			must(r.byToken(t, s.access))(t)
			return
		}
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byToken(t, string(changed)))
	})
}

// Only a header and payload that the gateway's key signed are accepted, and only as a
// token of the login.
func FuzzAccessTokenClaims(f *testing.F) {
	r := newRig(f)
	s := r.signIn(f, "alice")
	good := r.forge(f, s)
	part := strings.Split(good.token(), ".")
	header, claims := decoded(f, part[0]), decoded(f, part[1])
	f.Add(header, claims)
	f.Add(strings.Replace(header, "HS256", "none", 1), claims)
	f.Add(header, strings.Replace(claims, "alice", "bob", 1))
	f.Add(header, strings.Replace(claims, "{", `{"sub":"bob",`, 1))
	f.Add(header, `{"exp":1e300}`)
	forger := good.by(signHS256([]byte("not the gateway's secret, but one of its length")))
	f.Fuzz(func(t *testing.T, header, claims string) {
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byToken(t, forger.raw(header, claims)))
		id, err := r.byToken(t, good.raw(header, claims))
		if err != nil {
			wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)
			return
		}
		said := map[string]any{}
		if err := json.Unmarshal([]byte(claims), &said); err != nil {
			t.Fatalf("%s passes and is no object: %v", claims, err)
		}
		if said["sub"] != id.Username || said["iss"] != testIssuer || !r.now().Before(id.Expires) {
			t.Errorf("%s passes as %+v", claims, id)
		}
		if sid, given := said["sid"]; given && (sid != s.login.ID || id.Login != s.login.ID || id.Username != "alice") || !given && id.Login != "" {
			t.Errorf("%s passes as %+v, of the login %s", claims, id, s.login.ID)
		}
	})
}
