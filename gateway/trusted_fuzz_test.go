package gateway

import (
	"testing"
)

// One changed byte of a token of another issuer never verifies, be the token
// itself known as good by then or not.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := newSmallProvider(f)
	r := newRig(f, edit(f, baseConfig, "basic:\n", "token: {trusted_issuers: [{name: small, issuer: \""+p.issuer+"\", audience: [gateway]}]}\nbasic:\n"))
	f.Cleanup(r.Close)
	p.now = r.clock.now
	good, _ := p.tokens(p.key, map[string]any{"jti": "1"})["id_token"].(string)
	for _, at := range []uint16{0, 5, 20, 40, 60, 90, 200, uint16(len(good) - 86), uint16(len(good) - 40), uint16(len(good) - 1)} {
		for _, with := range []byte{'A', 'Q', '.', '=', '-', ' '} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(good)
		changed[int(at)%len(changed)] = with
		before := r.upstream.count()
		w := r.do("GET", "/bearer/", "", "Authorization: Bearer "+string(changed))
		reached := r.upstream.count() > before
		if same := string(changed) == good; same != (w.Code == 200) || same != reached || !same && w.Code != 401 {
			t.Errorf("byte %d as %q: %d, reached the upstream: %t", int(at)%len(good), with, w.Code, reached)
		}
	})
}
